-- Epochs that something in the capture names, a process: requests, else steps, else a family of outermost ranges whose
-- names differ only in a number, else an outermost range that returns under one name. The first kind whose epochs hold at least half of what was allocated between their first
-- start and last end is taken (a log whose spans are only marks holds none).
CREATE TEMP TABLE _named_ranges AS
SELECT n.process_id, n.file_id, n.depth, n.start_ns, n.end_ns, r.name, n.range_path || '@' || n.file_id::VARCHAR AS family,
    regexp_matches(r.name, '^(ProfilerStep|(train|training|global|opt|optimizer)?[ _-]?(step|iter|iteration))[^0-9A-Za-z]*[0-9]+$', 'i') AS is_step
FROM range_nesting AS n JOIN ranges AS r USING (range_id)
WHERE regexp_matches(r.name, '[0-9]') OR n.depth = 0;

CREATE TEMP TABLE _candidates AS
SELECT w.process_id, 1 AS preference, 'request' AS epoch_kind, '' AS family, s.start_ns, s.end_ns, s.request_id AS epoch_name, s.request_id
FROM request_spans AS s JOIN judged_windows AS w ON w.process_id = s.process_id OR s.process_id IS NULL
WHERE s.start_ns IS NOT NULL
    AND (NOT coalesce(s.is_request_id_inferred, false) OR NOT EXISTS (FROM request_spans WHERE NOT is_request_id_inferred))
UNION ALL
SELECT process_id, 2, 'step', family, start_ns, end_ns, name, NULL FROM _named_ranges WHERE is_step
UNION ALL
SELECT process_id, 3, 'range family', family, start_ns, end_ns, name, NULL FROM _named_ranges
WHERE depth = 0 AND NOT is_step AND regexp_matches(name, '[0-9]')
UNION ALL
SELECT process_id, 4, 'repeated range', family, start_ns, end_ns, name, NULL FROM _named_ranges
WHERE depth = 0 AND NOT regexp_matches(name, '[0-9]') AND end_ns > start_ns;

-- Of epochs that start together (a request that two logs name) one counts.
CREATE TEMP TABLE _cut AS
SELECT DISTINCT ON (c.process_id, c.preference, c.family, c.start_ns) c.*
FROM _candidates AS c JOIN judged_windows AS w USING (process_id)
WHERE coalesce(c.end_ns, c.start_ns) >= w.first_ns AND c.start_ns <= w.last_ns
ORDER BY c.process_id, c.preference, c.family, c.start_ns, c.end_ns DESC NULLS LAST, c.epoch_name;

CREATE TEMP TABLE _families AS
SELECT process_id, preference, family, count(*) AS epoch_count, min(start_ns) AS first_ns,
    max(coalesce(end_ns, 9223372036854775807)) AS last_ns
FROM _cut GROUP BY process_id, preference, family
HAVING epoch_count BETWEEN (CASE preference WHEN 4 THEN 8 WHEN 3 THEN 3 ELSE 2 END) AND 200000
QUALIFY row_number() OVER (PARTITION BY process_id, preference ORDER BY epoch_count DESC, family) <= 50;

CREATE TEMP TABLE _ends AS
SELECT process_id, preference, family, start_ns, max(coalesce(end_ns, 9223372036854775807)) OVER (
    PARTITION BY process_id, preference, family ORDER BY start_ns) AS ends_by
FROM _cut;

-- A sample of the moments is enough to tell what share the epochs hold.
CREATE TEMP TABLE _sample AS
SELECT m.process_id, m.ts_ns FROM judged_moments AS m JOIN judged_windows AS w USING (process_id)
WHERE hash(m.ts_ns) % greatest(1, w.alloc_count // 20000)::UBIGINT = 0;

CREATE TEMP TABLE _coverage AS
SELECT k.process_id, k.preference, k.family, count(*) AS between_count, count(*) FILTER (e.ends_by >= m.ts_ns) AS inside_count
FROM _families AS k
JOIN _sample AS m ON m.process_id = k.process_id AND m.ts_ns >= k.first_ns AND m.ts_ns <= k.last_ns
ASOF JOIN _ends AS e ON e.process_id = k.process_id AND e.preference = k.preference AND e.family = k.family AND e.start_ns <= m.ts_ns
GROUP BY k.process_id, k.preference, k.family;

CREATE TEMP TABLE _chosen AS
SELECT k.process_id, k.preference, k.family
FROM _families AS k
JOIN _coverage AS v USING (process_id, preference, family)
JOIN (SELECT process_id, count(*) AS sampled FROM _sample GROUP BY process_id) AS s USING (process_id)
WHERE v.inside_count * 2 >= v.between_count AND (k.preference < 3 OR v.inside_count * 4 >= s.sampled)
QUALIFY row_number() OVER (PARTITION BY k.process_id ORDER BY k.preference, v.inside_count DESC, k.epoch_count DESC, k.family) = 1;

CREATE TEMP TABLE named_epochs AS
SELECT c.process_id, c.epoch_kind, c.epoch_name, c.start_ns, c.end_ns, c.request_id
FROM _cut AS c JOIN _chosen AS k USING (process_id, preference, family);
