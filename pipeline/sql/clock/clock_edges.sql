-- How one file's clock maps to another's: reference = recorded + offset + drift × (recorded − origin).
-- Offset is the median difference, drift the Theil–Sen slope (8 anchors or more, and only when it moves the ends of the
-- recording by more than the scatter); anchors beyond 5 median absolute deviations are left out.
CREATE TEMP TABLE _differences AS
SELECT *, reference_ns - ts_ns AS difference_ns FROM clock_anchors;

CREATE TEMP TABLE _centre AS
SELECT reference_file_id, file_id, method, count(*) AS seen, quantile_disc(difference_ns, 0.5) AS median_ns
FROM _differences GROUP BY ALL;

CREATE TEMP TABLE _spread AS
SELECT d.reference_file_id, d.file_id, d.method, quantile_disc(abs(d.difference_ns - c.median_ns), 0.5) AS mad_ns
FROM _differences AS d JOIN _centre AS c USING (reference_file_id, file_id, method) GROUP BY ALL;

CREATE TEMP TABLE _inliers AS
SELECT d.*, c.median_ns, s.mad_ns,
    row_number() OVER (PARTITION BY d.reference_file_id, d.file_id, d.method ORDER BY d.ts_ns) AS place
FROM _differences AS d
JOIN _centre AS c USING (reference_file_id, file_id, method)
JOIN _spread AS s USING (reference_file_id, file_id, method)
WHERE abs(d.difference_ns - c.median_ns) <= greatest(5 * s.mad_ns, 1000);

CREATE TEMP TABLE _slopes AS
SELECT
    a.reference_file_id, a.file_id, a.method,
    median((b.difference_ns - a.difference_ns)::DOUBLE / (b.ts_ns - a.ts_ns)) AS slope
FROM _inliers AS a
JOIN _inliers AS b USING (reference_file_id, file_id, method)
WHERE b.ts_ns > a.ts_ns AND a.place <= 200 AND b.place <= 200
GROUP BY ALL;

CREATE TEMP TABLE _lines AS
SELECT
    i.reference_file_id, i.file_id, i.method,
    count(*) AS anchor_count,
    min(i.ts_ns) AS origin_ns,
    CASE
        WHEN count(*) >= 8 AND abs(any_value(s.slope)) * (max(i.ts_ns) - min(i.ts_ns)) > 4 * any_value(i.mad_ns)
            THEN any_value(s.slope) ELSE 0.0
    END AS drift_ratio
FROM _inliers AS i
LEFT JOIN _slopes AS s USING (reference_file_id, file_id, method)
GROUP BY ALL;

CREATE TEMP TABLE _offsets AS
SELECT
    i.reference_file_id, i.file_id, i.method,
    quantile_disc(i.difference_ns - (l.drift_ratio * (i.ts_ns - l.origin_ns))::BIGINT, 0.5) AS offset_ns
FROM _inliers AS i JOIN _lines AS l USING (reference_file_id, file_id, method)
GROUP BY ALL;

CREATE TEMP TABLE clock_edges AS
SELECT
    l.reference_file_id,
    l.file_id,
    l.method,
    l.anchor_count,
    any_value(c.seen) - l.anchor_count AS outlier_count,
    any_value(o.offset_ns) AS offset_ns,
    l.drift_ratio,
    l.origin_ns,
    quantile_disc(abs(i.difference_ns - o.offset_ns - (l.drift_ratio * (i.ts_ns - l.origin_ns))::BIGINT), 0.5) AS residual_p50_ns,
    quantile_disc(abs(i.difference_ns - o.offset_ns - (l.drift_ratio * (i.ts_ns - l.origin_ns))::BIGINT), 0.99) AS residual_p99_ns
FROM _lines AS l
JOIN _inliers AS i USING (reference_file_id, file_id, method)
JOIN _offsets AS o USING (reference_file_id, file_id, method)
JOIN _centre AS c USING (reference_file_id, file_id, method)
GROUP BY l.reference_file_id, l.file_id, l.method, l.anchor_count, l.drift_ratio, l.origin_ns;
