-- What was allocated before the recorded window and given back late in it, at least two epochs after its start: no call
-- path is known for it, only its size. A cache that evicts old entries while new ones are recorded looks like growth
-- without these.
CREATE TEMP TABLE older_frees AS
SELECT a.process_id, a.device_index, a.level, a.memory_kind, coalesce(a.requested_bytes, a.allocated_bytes) AS size_key,
    count(*) AS freed_count
FROM allocations AS a
ASOF JOIN epochs AS e ON e.process_id = a.process_id AND e.start_ns <= coalesce(a.free_requested_ts_ns, a.free_ts_ns)
WHERE a.alloc_ts_ns IS NULL AND e.epoch_index >= 2 AND a.level IN ('tensor', 'driver') AND a.memory_kind <> 'static'
GROUP BY a.process_id, a.device_index, a.level, a.memory_kind, size_key;
