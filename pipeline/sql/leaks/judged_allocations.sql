-- What is judged: tensors, host memory, and driver allocations that no segment explains; all of them, freed ones too, of the call paths
-- that have survivors. Without a call path, the API call and the range path tell allocations apart (`path_key` < 0);
-- `range_key` stands for the range path.
-- What its owner gave back counts as gone: memory that only waits for a stream is not kept. Host memory is judged at the
-- beginning of its teardown: what only that gives back lives.
CREATE TEMP TABLE _explained AS
SELECT DISTINCT parent_allocation_id AS allocation_id FROM allocations WHERE level = 'segment' AND parent_allocation_id IS NOT NULL;

CREATE TEMP TABLE _call_names AS
SELECT process_id, correlation_id, min(name) AS api_name FROM api_calls
WHERE (process_id, correlation_id) IN (SELECT process_id, alloc_correlation_id FROM allocations WHERE level = 'driver' AND alloc_correlation_id > 0)
GROUP BY process_id, correlation_id;

CREATE TEMP TABLE _nameless AS
SELECT a.allocation_id, c.api_name, n.range_path,
    -1 - (hash(coalesce(c.api_name, '') || '|' || coalesce(n.range_path, '')) >> 2)::BIGINT AS path_key
FROM allocations AS a
LEFT JOIN range_nesting AS n ON n.range_id = a.range_id
LEFT JOIN _call_names AS c ON a.level = 'driver' AND c.process_id = a.process_id AND c.correlation_id = a.alloc_correlation_id
WHERE a.alloc_call_path_id IS NULL AND a.level IN ('tensor', 'driver', 'host') AND a.memory_kind <> 'static';

CREATE TEMP TABLE _keyed AS
SELECT a.allocation_id, a.process_id, a.device_index, a.level, a.memory_kind, a.alloc_call_path_id AS call_path_id,
    coalesce(a.alloc_call_path_id, k.path_key) AS path_key, a.allocated_bytes, a.requested_bytes,
    coalesce(a.requested_bytes, a.allocated_bytes) AS size_key, a.request_id, a.range_id, k.api_name, a.alloc_ts_ns,
    CASE WHEN h.process_id IS NULL OR a.free_ts_ns < h.judged_until_ns THEN coalesce(a.free_requested_ts_ns, a.free_ts_ns) END AS gone_ts_ns,
    a.free_requested_ts_ns IS NULL AND a.free_ts_ns IS NULL AND NOT a.is_free_inferred
        OR coalesce(a.free_ts_ns >= h.judged_until_ns, false) AS is_live
FROM allocations AS a LEFT JOIN _nameless AS k USING (allocation_id)
LEFT JOIN host_ends AS h ON a.level = 'host' AND h.process_id = a.process_id AND h.memory_kind = a.memory_kind
WHERE a.level IN ('tensor', 'driver', 'host') AND a.memory_kind <> 'static' AND a.allocated_bytes > 0
    AND coalesce(a.alloc_ts_ns < h.judged_until_ns, h.process_id IS NULL OR a.alloc_ts_ns IS NULL)
    AND (a.level <> 'driver' OR a.allocation_id NOT IN (SELECT allocation_id FROM _explained));

CREATE TEMP TABLE _kept_paths AS
SELECT DISTINCT process_id, device_index, level, memory_kind, path_key FROM _keyed WHERE is_live;

CREATE TEMP TABLE judged_allocations AS
SELECT j.*, n.range_path, (hash(n.range_path) >> 2)::BIGINT AS range_key
FROM _keyed AS j
JOIN _kept_paths AS k ON k.process_id IS NOT DISTINCT FROM j.process_id AND k.device_index IS NOT DISTINCT FROM j.device_index
    AND k.level = j.level AND k.memory_kind = j.memory_kind AND k.path_key = j.path_key
LEFT JOIN range_nesting AS n ON n.range_id = j.range_id;
