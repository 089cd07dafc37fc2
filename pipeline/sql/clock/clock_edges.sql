-- How one file's clock maps to another's: reference = recorded + offset + drift × (recorded − origin).
-- Drift is the Theil–Sen slope; offset the median of what the drift leaves. Anchors beyond 5 median absolute deviations of
-- the line are left out. A drift is believed with 8 anchors or more, and only when over their span it moves the clock by
-- half a millisecond and by 8 times the scatter about the sloped line: the first calls of a process are slow, and a slope
-- through a few hundred microseconds of that would be carried far beyond the anchors.
CREATE TEMP TABLE _differences AS
SELECT *, reference_ns - ts_ns AS difference_ns, min(ts_ns) OVER edge AS origin_ns,
    max(ts_ns) OVER edge - min(ts_ns) OVER edge AS span_ns
FROM clock_anchors WINDOW edge AS (PARTITION BY reference_file_id, file_id, method);

CREATE TEMP TABLE _slopes AS
SELECT
    a.reference_file_id, a.file_id, a.method,
    median((b.difference_ns - a.difference_ns)::DOUBLE / (b.ts_ns - a.ts_ns)) AS slope
FROM _differences AS a
JOIN _differences AS b USING (reference_file_id, file_id, method)
WHERE b.ts_ns > a.ts_ns
GROUP BY ALL;

-- Each edge twice: with its slope and level. No clock drifts by a hundredth: such a slope is damage.
CREATE TEMP TABLE _sloped AS
SELECT d.*, s.slope, d.difference_ns - (s.slope * (d.ts_ns - d.origin_ns))::BIGINT AS left_ns
FROM _differences AS d JOIN _slopes AS s USING (reference_file_id, file_id, method)
WHERE s.slope <> 0 AND abs(s.slope) < 0.01
UNION ALL
SELECT *, 0.0, difference_ns FROM _differences;

CREATE TEMP TABLE _scatter AS
SELECT
    reference_file_id, file_id, method, slope, median_ns,
    count(*) AS seen, any_value(span_ns) AS span_ns, quantile_disc(abs(left_ns::HUGEINT - median_ns), 0.5) AS mad_ns
FROM (
    SELECT *, quantile_disc(left_ns, 0.5) OVER (PARTITION BY reference_file_id, file_id, method, slope) AS median_ns
    FROM _sloped
)
GROUP BY ALL;

CREATE TEMP TABLE _lines AS
SELECT * FROM _scatter
WHERE slope = 0 OR (seen >= 8 AND abs(slope) * span_ns > greatest(8 * mad_ns, 500000))
QUALIFY row_number() OVER (PARTITION BY reference_file_id, file_id, method ORDER BY slope = 0) = 1;

CREATE TEMP TABLE _inliers AS
SELECT d.*, l.seen
FROM _sloped AS d
JOIN _lines AS l USING (reference_file_id, file_id, method, slope)
WHERE abs(d.left_ns::HUGEINT - l.median_ns) <= greatest(5 * l.mad_ns, 1000);

CREATE TEMP TABLE clock_edges AS
SELECT
    reference_file_id, file_id, method,
    count(*) AS anchor_count,
    any_value(seen) - count(*) AS outlier_count,
    offset_ns,
    slope AS drift_ratio,
    any_value(origin_ns) AS origin_ns,
    quantile_disc(abs(left_ns::HUGEINT - offset_ns), 0.5) AS residual_p50_ns,
    quantile_disc(abs(left_ns::HUGEINT - offset_ns), 0.99) AS residual_p99_ns
FROM (
    SELECT *, quantile_disc(left_ns, 0.5) OVER (PARTITION BY reference_file_id, file_id, method) AS offset_ns FROM _inliers
)
GROUP BY reference_file_id, file_id, method, offset_ns, slope;
