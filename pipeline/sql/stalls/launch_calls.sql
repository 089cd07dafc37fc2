-- Calls that put operations on a device, one row a call, with what they put there. A call is found by its number in the
-- file of the operation; where that file has no calls of the process, in the file that has most of them.
CREATE TEMP TABLE _op_files AS
SELECT o.file_id, o.process_id, arg_max(c.file_id, (c.file_id = o.file_id, c.call_count)) AS call_file_id
FROM (SELECT DISTINCT file_id, process_id, CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id FROM gpu_ops) AS o
JOIN call_files AS c ON c.process_id = o.process_id AND c.clock_id = o.clock_id
GROUP BY o.file_id, o.process_id;

CREATE TEMP TABLE _placed AS
SELECT f.call_file_id AS file_id, o.process_id, o.correlation_id, min(o.start_ns) AS first_op_ns, min(o.device_index) AS device_index,
    min(o.stream_id) AS stream_id
FROM gpu_ops AS o JOIN _op_files AS f ON f.file_id = o.file_id AND f.process_id = o.process_id
WHERE o.correlation_id IS NOT NULL AND o.end_ns >= o.start_ns
GROUP BY f.call_file_id, o.process_id, o.correlation_id;

CREATE TEMP TABLE _copied AS
SELECT f.call_file_id AS file_id, o.process_id, o.correlation_id, bool_or('pageable' IN (o.src_kind, o.dst_kind)) AS is_pageable,
    sum(o.size_bytes) AS size_bytes, min(o.copy_kind) AS copy_kind
FROM gpu_ops AS o JOIN _op_files AS f ON f.file_id = o.file_id AND f.process_id = o.process_id
WHERE o.op = 'memcpy' AND o.correlation_id IS NOT NULL AND o.end_ns >= o.start_ns
GROUP BY f.call_file_id, o.process_id, o.correlation_id;

CREATE TEMP TABLE launch_calls AS
SELECT a.file_id, a.event_index, a.process_id, a.thread_id, a.start_ns, greatest(a.end_ns, a.start_ns) AS end_ns,
    CASE WHEN a.clock_aligned THEN -1 ELSE a.file_id END AS clock_id, p.first_op_ns, p.device_index, p.stream_id,
    coalesce(c.is_pageable, false) AS is_pageable, c.file_id IS NOT NULL AS is_copy, c.size_bytes, c.copy_kind
FROM api_calls AS a
JOIN _placed AS p ON p.file_id = a.file_id AND p.process_id = a.process_id AND p.correlation_id = a.correlation_id
LEFT JOIN _copied AS c ON c.file_id = a.file_id AND c.process_id = a.process_id AND c.correlation_id = a.correlation_id
WHERE a.api IN ('runtime', 'driver') AND a.start_ns IS NOT NULL;
