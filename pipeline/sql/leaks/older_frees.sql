-- What was allocated before the recorded window and given back late in it, at least two epochs after its start: no call
-- path is known for it, only its size. A cache that evicts old entries while new ones are recorded looks like growth
-- without these. A freed kernel object tells its cache instead (`object_name`), and takes the size that it has there.
CREATE TEMP TABLE _object_names AS
SELECT p.call_path_id, f.function AS object_name
FROM call_paths AS p JOIN frames AS f ON f.frame_id = p.frame_ids[-1] WHERE f.module = 'slab';

CREATE TEMP TABLE _object_sizes AS
SELECT a.process_id, a.memory_kind, n.object_name, mode(a.allocated_bytes ORDER BY a.allocated_bytes) AS object_bytes
FROM allocations AS a JOIN _object_names AS n ON n.call_path_id = a.alloc_call_path_id
WHERE a.level = 'host' AND a.allocated_bytes IS NOT NULL
GROUP BY a.process_id, a.memory_kind, n.object_name;

CREATE TEMP TABLE older_frees AS
SELECT a.process_id, a.device_index, a.level, a.memory_kind, a.object_name, a.size_key, count(*) AS freed_count
FROM (
    SELECT a.process_id, a.device_index, a.level, a.memory_kind, n.object_name, a.free_requested_ts_ns, a.free_ts_ns,
        coalesce(a.requested_bytes, a.allocated_bytes, s.object_bytes) AS size_key
    FROM allocations AS a
    LEFT JOIN _object_names AS n ON a.level = 'host' AND n.call_path_id = a.free_call_path_id
    LEFT JOIN _object_sizes AS s ON a.level = 'host' AND s.process_id = a.process_id AND s.memory_kind = a.memory_kind AND s.object_name = n.object_name
    LEFT JOIN host_ends AS h ON a.level = 'host' AND h.process_id = a.process_id AND h.memory_kind = a.memory_kind
    WHERE a.alloc_ts_ns IS NULL AND a.level IN ('tensor', 'driver', 'host') AND a.memory_kind <> 'static'
        AND coalesce(a.free_ts_ns < h.judged_until_ns, true)
) AS a
ASOF JOIN epochs AS e ON e.process_id = a.process_id AND e.start_ns <= coalesce(a.free_requested_ts_ns, a.free_ts_ns)
WHERE e.epoch_index >= 2 AND (a.level <> 'host' OR a.size_key IS NOT NULL)
GROUP BY a.process_id, a.device_index, a.level, a.memory_kind, a.object_name, a.size_key;
