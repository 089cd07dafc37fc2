-- Calls by name within each token's time: operators and ranges where a profiler wrote them, else kernels by when they were
-- launched. Numbers in names become #. The names that are called most are kept.
CREATE TEMP TABLE _processes AS
SELECT DISTINCT process_id FROM token_windows;

CREATE TEMP TABLE _called AS
SELECT r.process_id, r.start_ns, regexp_replace(r.name, '[0-9]+', '#', 'g') AS name, r.call_path_id
FROM ranges AS r SEMI JOIN _processes USING (process_id)
WHERE r.clock_aligned AND r.name IS NOT NULL AND r.range_kind IN ('operator', 'python', 'push_pop', 'start_end', 'annotation')
UNION ALL
SELECT c.process_id, c.start_ns, g.name, c.call_path_id
FROM gpu_ops AS g SEMI JOIN _processes USING (process_id)
JOIN api_calls AS c ON c.process_id = g.process_id AND c.correlation_id = g.correlation_id AND c.file_id = g.file_id
WHERE c.clock_aligned AND g.op = 'kernel' AND NOT EXISTS (FROM ranges WHERE range_kind = 'operator');

CREATE TEMP TABLE _counted AS
SELECT w.process_id, w.request_number, w.position, c.name, count(*) AS calls, mode(c.call_path_id) AS call_path_id
FROM _called AS c
ASOF JOIN token_windows AS w ON w.process_id = c.process_id AND c.start_ns >= w.start_ns
WHERE c.start_ns < w.end_ns
GROUP BY w.process_id, w.request_number, w.position, c.name;

CREATE TEMP TABLE _most AS
SELECT process_id, name FROM _counted GROUP BY process_id, name
QUALIFY row_number() OVER (PARTITION BY process_id ORDER BY sum(calls) DESC, name) <= 200;

CREATE TEMP TABLE token_calls AS
SELECT c.* FROM _counted AS c JOIN _most AS m USING (process_id, name);
