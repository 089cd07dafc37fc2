-- When what is judged was allocated: tensors, or in a process without any driver allocations, or host memory where it has
-- neither, up to its teardown.
CREATE TEMP TABLE _levels AS
SELECT process_id, min(CASE level WHEN 'tensor' THEN 1 WHEN 'driver' THEN 2 ELSE 3 END) AS level_order FROM allocations
WHERE alloc_ts_ns IS NOT NULL AND memory_kind <> 'static' AND level IN ('tensor', 'driver', 'host') AND process_id IS NOT NULL
GROUP BY process_id;

CREATE TEMP TABLE judged_moments AS
SELECT a.process_id, a.alloc_ts_ns AS ts_ns, a.level = 'host' AS is_host
FROM allocations AS a
JOIN _levels AS l ON l.process_id = a.process_id AND l.level_order = CASE a.level WHEN 'tensor' THEN 1 WHEN 'driver' THEN 2 WHEN 'host' THEN 3 END
LEFT JOIN host_ends AS h ON a.level = 'host' AND h.process_id = a.process_id AND h.memory_kind = a.memory_kind
WHERE a.alloc_ts_ns IS NOT NULL AND a.memory_kind <> 'static' AND coalesce(a.alloc_ts_ns < h.judged_until_ns, true);
