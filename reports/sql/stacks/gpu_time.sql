-- Operations of the devices in ns, below the call path that launched them. Two tools that saw one process at one time saw
-- the same operations: the file with most of them counts.
WITH _spans AS (
    SELECT process_id, device_index, file_id, count(*) AS operations, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM gpu_ops WHERE op IN ('kernel', 'memcpy', 'memset', 'graph') AND end_ns >= start_ns GROUP BY ALL
),
_twice AS (
    SELECT DISTINCT s.process_id, s.device_index, s.file_id FROM _spans s JOIN _spans o
      ON o.process_id = s.process_id AND o.device_index = s.device_index AND o.file_id <> s.file_id
     AND o.first_ns <= s.last_ns AND s.first_ns <= o.last_ns AND (o.operations, -o.file_id) > (s.operations, -s.file_id)
),
_ops AS (
    SELECT g.process_id, g.device_index, g.name, g.correlation_id, sum(g.end_ns - g.start_ns) AS weight
    FROM gpu_ops g ANTI JOIN _twice t USING (process_id, device_index, file_id)
    WHERE g.op IN ('kernel', 'memcpy', 'memset', 'graph') AND g.end_ns >= g.start_ns GROUP BY ALL
),
_calls AS (
    SELECT process_id, correlation_id,
           min_by(call_path_id, (start_ns, -end_ns, file_id, event_index)) FILTER (call_path_id IS NOT NULL) AS call_path_id
    FROM api_calls WHERE correlation_id IN (SELECT correlation_id FROM _ops) AND api IS DISTINCT FROM 'osrt' GROUP BY ALL
)
SELECT 'device time' AS level, o.process_id, o.device_index, c.call_path_id, coalesce(o.name, '[no name]') AS leaf, o.weight
FROM _ops o LEFT JOIN _calls c ON c.process_id = o.process_id AND c.correlation_id = o.correlation_id
