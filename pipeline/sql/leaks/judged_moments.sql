-- When what is judged was allocated: tensors, or driver allocations in a process without any.
CREATE TEMP TABLE _levels AS
SELECT process_id, max(level) AS level FROM allocations
WHERE alloc_ts_ns IS NOT NULL AND memory_kind <> 'static' AND level IN ('tensor', 'driver') AND process_id IS NOT NULL
GROUP BY process_id;

CREATE TEMP TABLE judged_moments AS
SELECT a.process_id, a.alloc_ts_ns AS ts_ns
FROM allocations AS a JOIN _levels AS l ON l.process_id = a.process_id AND l.level = a.level
WHERE a.alloc_ts_ns IS NOT NULL AND a.memory_kind <> 'static';
