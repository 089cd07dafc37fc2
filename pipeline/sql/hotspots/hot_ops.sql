-- Operations of the devices by name, launching call path and range: kernels, copies, fills and whole graphs. Two tools that
-- saw one process at one time saw the same operations: the file with most of them counts.
CREATE TEMP TABLE _spans AS
SELECT process_id, device_index, file_id, count(*) AS operations, min(start_ns) AS first_ns, max(end_ns) AS last_ns
FROM gpu_ops WHERE op IN ('kernel', 'memcpy', 'memset', 'graph') AND end_ns >= start_ns
GROUP BY process_id, device_index, file_id;

CREATE TEMP TABLE _files AS
SELECT process_id, device_index, file_id FROM _spans AS s
WHERE NOT EXISTS (
    SELECT 1 FROM _spans AS o
    WHERE o.process_id = s.process_id AND o.device_index = s.device_index AND o.file_id <> s.file_id
        AND o.first_ns <= s.last_ns AND s.first_ns <= o.last_ns AND (o.operations, -o.file_id) > (s.operations, -s.file_id)
);

CREATE TEMP TABLE _ops AS
SELECT g.process_id, g.device_index, g.file_id, g.op, g.name, g.correlation_id, g.start_ns, g.end_ns - g.start_ns AS amount
FROM gpu_ops AS g
SEMI JOIN _files AS f
    ON f.file_id = g.file_id AND f.process_id IS NOT DISTINCT FROM g.process_id AND f.device_index IS NOT DISTINCT FROM g.device_index
WHERE g.op IN ('kernel', 'memcpy', 'memset', 'graph') AND g.end_ns >= g.start_ns;

-- One call a number: that with a call path, the outermost of those (the runtime's, around the driver's).
CREATE TEMP TABLE _calls AS
SELECT process_id, correlation_id, file_id, thread_id, start_ns, clock_aligned, call_path_id
FROM api_calls
WHERE correlation_id IS NOT NULL AND api IS DISTINCT FROM 'osrt'
    AND correlation_id IN (SELECT correlation_id FROM _ops)
QUALIFY row_number() OVER (
    PARTITION BY process_id, correlation_id ORDER BY call_path_id IS NULL, start_ns, end_ns DESC, file_id, event_index) = 1;

CREATE TEMP TABLE _call_ranges AS
SELECT c.process_id, c.correlation_id, n.range_path
FROM _calls AS c
ASOF JOIN thread_timeline AS t
    ON t.process_id = c.process_id AND t.file_id = c.file_id AND t.thread_id = c.thread_id AND t.ts_ns <= c.start_ns
JOIN range_nesting AS n ON n.range_id = t.range_id
WHERE c.clock_aligned;

CREATE TEMP TABLE _grouped AS
SELECT o.process_id, o.device_index, o.op, o.name, c.call_path_id, r.range_path, count(*) AS call_count,
    sum(o.amount)::HUGEINT AS amount
FROM _ops AS o
LEFT JOIN _calls AS c ON c.process_id = o.process_id AND c.correlation_id = o.correlation_id
LEFT JOIN _call_ranges AS r ON r.process_id = o.process_id AND r.correlation_id = o.correlation_id
GROUP BY o.process_id, o.device_index, o.op, o.name, c.call_path_id, r.range_path;

CREATE TEMP TABLE _kept AS
SELECT process_id, device_index FROM _grouped GROUP BY process_id, device_index
ORDER BY sum(amount) DESC, process_id NULLS LAST, device_index NULLS LAST LIMIT getvariable('hotspot_places');

CREATE TEMP TABLE hot_ops AS
SELECT k.process_id, k.device_index, g.op, g.name, g.call_path_id, g.range_path,
    sum(g.call_count)::HUGEINT AS call_count, sum(g.amount)::HUGEINT AS amount
FROM _grouped AS g
LEFT JOIN _kept AS k ON k.process_id IS NOT DISTINCT FROM g.process_id AND k.device_index IS NOT DISTINCT FROM g.device_index
GROUP BY k.process_id, k.device_index, g.op, g.name, g.call_path_id, g.range_path;
