-- What repeats, a process: requests, else steps, else a family of outermost ranges whose names differ only in a number,
-- else bursts between idle times, else equal time windows. The first kind with enough epochs that hold the allocations
-- is taken. Epochs cut time at their starts, so that what is allocated between two belongs to the earlier one.
CREATE TEMP TABLE _judged AS
SELECT process_id, alloc_ts_ns AS ts_ns, level FROM allocations
WHERE alloc_ts_ns IS NOT NULL AND memory_kind <> 'static' AND level IN ('tensor', 'driver') AND process_id IS NOT NULL;

CREATE TEMP TABLE _window AS
SELECT process_id, level, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, count(*) AS alloc_count FROM _judged
GROUP BY process_id, level
QUALIFY row_number() OVER (PARTITION BY process_id ORDER BY level DESC) = 1;

CREATE TEMP TABLE _window_events AS
SELECT process_id, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM memory_events
WHERE clock_aligned AND ts_ns IS NOT NULL AND level IN ('tensor', 'segment') GROUP BY process_id;

CREATE TEMP TABLE _moments AS
SELECT j.process_id, j.ts_ns, row_number() OVER (PARTITION BY j.process_id ORDER BY j.ts_ns) AS place,
    j.ts_ns - lag(j.ts_ns) OVER (PARTITION BY j.process_id ORDER BY j.ts_ns) AS gap_ns
FROM _judged AS j JOIN _window AS w ON w.process_id = j.process_id AND w.level = j.level;

CREATE TEMP TABLE _outermost AS
SELECT n.process_id, n.start_ns, n.end_ns, r.name, n.range_path AS family, n.file_id
FROM range_nesting AS n JOIN ranges AS r USING (range_id)
WHERE n.depth = 0 AND regexp_matches(r.name, '[0-9]');

CREATE TEMP TABLE _steps AS
SELECT n.process_id, n.file_id, n.start_ns, n.end_ns, r.name, n.range_path AS family
FROM range_nesting AS n JOIN ranges AS r USING (range_id)
WHERE regexp_matches(r.name, '^(ProfilerStep|(train|training|global|opt|optimizer)?[ _-]?(step|iter|iteration))[^0-9A-Za-z]*[0-9]+$', 'i');

CREATE TEMP TABLE _idle AS
SELECT m.process_id, m.ts_ns AS start_ns
FROM _moments AS m
JOIN (
    SELECT process_id, greatest(1000000, 20 * quantile_disc(gap_ns, 0.9)) AS limit_ns
    FROM _moments WHERE gap_ns IS NOT NULL GROUP BY process_id
) AS g ON g.process_id = m.process_id
WHERE m.gap_ns IS NULL OR m.gap_ns > g.limit_ns;

CREATE TEMP TABLE _candidates AS
SELECT w.process_id, 1 AS preference, 'request' AS epoch_kind, '' AS family, s.start_ns, s.end_ns, s.request_id AS epoch_name, s.request_id
FROM request_spans AS s JOIN _window AS w ON w.process_id = s.process_id OR s.process_id IS NULL
WHERE s.start_ns IS NOT NULL
UNION ALL
SELECT process_id, 2, 'step', family || file_id::VARCHAR, start_ns, end_ns, name, NULL FROM _steps
UNION ALL
SELECT process_id, 3, 'range family', family || file_id::VARCHAR, start_ns, end_ns, name, NULL FROM _outermost
UNION ALL
SELECT process_id, 4, 'idle window', '', start_ns, NULL, NULL, NULL FROM _idle
UNION ALL
SELECT w.process_id, 5, 'time window', '', w.first_ns + ((w.last_ns - w.first_ns) * (i.i::HUGEINT) // n.n)::BIGINT, NULL, NULL, NULL
FROM _window AS w, (SELECT getvariable('time_windows') AS n) AS n, range(getvariable('time_windows')) AS i(i)
WHERE w.last_ns > w.first_ns;

-- Of epochs that start together (ranks of one job, twice-seen requests) one counts.
CREATE TEMP TABLE _cut AS
SELECT DISTINCT ON (c.process_id, c.preference, c.family, c.start_ns) c.*
FROM _candidates AS c
JOIN _window AS w USING (process_id)
LEFT JOIN _window_events AS e USING (process_id)
WHERE coalesce(c.end_ns, c.start_ns) >= coalesce(e.first_ns, w.first_ns) AND c.start_ns <= greatest(coalesce(e.last_ns, w.last_ns), w.last_ns)
ORDER BY c.process_id, c.preference, c.family, c.start_ns, c.end_ns DESC NULLS LAST;

-- Candidate epochs must hold at least half of the allocations made between their first start and last end.
CREATE TEMP TABLE _coverage AS
SELECT c.process_id, c.preference, c.family, count(*) AS between_count, sum(CASE WHEN c.is_inside THEN 1 ELSE 0 END) AS inside_count
FROM (
    SELECT k.process_id, k.preference, k.family, e.ends_by >= m.ts_ns AS is_inside
    FROM (SELECT process_id, preference, family, min(start_ns) AS first_ns, max(coalesce(end_ns, 9223372036854775807)) AS last_ns
          FROM _cut GROUP BY ALL) AS k
    JOIN _moments AS m ON m.process_id = k.process_id AND m.ts_ns >= k.first_ns AND m.ts_ns <= k.last_ns
    ASOF JOIN (
        SELECT process_id, preference, family, start_ns,
            max(coalesce(end_ns, 9223372036854775807)) OVER (PARTITION BY process_id, preference, family ORDER BY start_ns) AS ends_by
        FROM _cut
    ) AS e ON e.process_id = k.process_id AND e.preference = k.preference AND e.family = k.family AND e.start_ns <= m.ts_ns
) AS c
GROUP BY c.process_id, c.preference, c.family;

CREATE TEMP TABLE _chosen AS
SELECT k.process_id, k.preference, k.family
FROM (SELECT process_id, preference, family, count(*) AS epoch_count FROM _cut GROUP BY ALL) AS k
LEFT JOIN _coverage AS v USING (process_id, preference, family)
JOIN _window AS w USING (process_id)
WHERE k.epoch_count >= CASE k.preference WHEN 1 THEN 2 WHEN 2 THEN 2 WHEN 3 THEN 3 WHEN 4 THEN 6 ELSE 1 END
    AND k.epoch_count <= 200000
    AND (k.preference > 3 OR (v.inside_count * 2 >= v.between_count AND v.inside_count * 4 >= w.alloc_count * (CASE WHEN k.preference = 3 THEN 1 ELSE 0 END)))
QUALIFY row_number() OVER (PARTITION BY k.process_id ORDER BY k.preference, v.inside_count DESC NULLS LAST, k.epoch_count DESC, k.family) = 1;

CREATE TEMP TABLE epochs_made AS
SELECT
    c.process_id,
    row_number() OVER (PARTITION BY c.process_id ORDER BY c.start_ns) - 1 AS epoch_index,
    c.epoch_kind,
    c.epoch_name,
    c.start_ns,
    -- the last epoch of a capture may still run at the end: its own end is unknown then
    CASE WHEN lead(c.start_ns) OVER (PARTITION BY c.process_id ORDER BY c.start_ns) IS NOT NULL
        THEN lead(c.start_ns) OVER (PARTITION BY c.process_id ORDER BY c.start_ns)
        ELSE c.end_ns END AS end_ns,
    c.request_id
FROM _cut AS c JOIN _chosen AS k USING (process_id, preference, family);
