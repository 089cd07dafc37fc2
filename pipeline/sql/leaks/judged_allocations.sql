-- What is judged: tensors, and driver allocations that no segment explains. `epoch_index` is the allocation's own request
-- where it is known, else the epoch by time; -1 is before the first epoch, null before the window.
CREATE TEMP TABLE _explained AS
SELECT DISTINCT parent_allocation_id AS allocation_id FROM allocations WHERE level = 'segment' AND parent_allocation_id IS NOT NULL;

CREATE TEMP TABLE _request_epochs AS
SELECT process_id, request_id, min(epoch_index) AS epoch_index FROM epochs WHERE request_id IS NOT NULL GROUP BY ALL;

CREATE TEMP TABLE _call_names AS
SELECT process_id, correlation_id, min(name) AS api_name FROM api_calls
WHERE (process_id, correlation_id) IN (SELECT process_id, alloc_correlation_id FROM allocations WHERE level = 'driver' AND alloc_correlation_id > 0)
GROUP BY ALL;

-- Without a call path, the API call and the range path tell allocations apart (`path_key` is then negative).
CREATE TEMP TABLE judged_allocations AS
SELECT
    a.allocation_id, a.process_id, a.device_index, a.level, a.alloc_call_path_id AS call_path_id, a.memory_kind,
    a.allocated_bytes, a.requested_bytes, coalesce(a.requested_bytes, a.allocated_bytes) AS size_key, a.request_id, a.range_id, n.range_path, c.api_name,
    coalesce(a.alloc_call_path_id, -1 - (hash(coalesce(c.api_name, '') || '|' || coalesce(n.range_path, '')) >> 2)::BIGINT) AS path_key,
    CASE WHEN a.alloc_ts_ns IS NULL THEN NULL ELSE coalesce(r.epoch_index, e.epoch_index, -1) END AS epoch_index,
    CASE WHEN a.alloc_ts_ns IS NULL THEN NULL ELSE coalesce(e.epoch_index, -1) END AS time_epoch_index,
    -- given back by its owner counts as gone: what waits for a stream is not kept
    CASE WHEN coalesce(a.free_requested_ts_ns, a.free_ts_ns) IS NULL THEN NULL ELSE coalesce(f.epoch_index, -1) END AS free_epoch_index,
    a.is_alloc_before_window
FROM allocations AS a
ASOF LEFT JOIN epochs AS e ON e.process_id = a.process_id AND e.start_ns <= a.alloc_ts_ns
ASOF LEFT JOIN epochs AS f ON f.process_id = a.process_id AND f.start_ns <= coalesce(a.free_requested_ts_ns, a.free_ts_ns)
LEFT JOIN _request_epochs AS r ON r.process_id = a.process_id AND r.request_id = a.request_id
LEFT JOIN range_nesting AS n ON n.range_id = a.range_id
LEFT JOIN _call_names AS c ON a.level = 'driver' AND c.process_id = a.process_id AND c.correlation_id = a.alloc_correlation_id
WHERE a.level IN ('tensor', 'driver') AND a.memory_kind <> 'static' AND a.allocated_bytes > 0
    AND (a.level = 'tensor' OR a.allocation_id NOT IN (SELECT allocation_id FROM _explained));
