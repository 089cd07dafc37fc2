-- Driver allocations, one row each: where CUPTI and eBPF both saw it, CUPTI's row takes eBPF's stack.
CREATE TEMP TABLE _process_device AS
SELECT process_id, CASE WHEN count(DISTINCT device_index) = 1 THEN any_value(device_index) END AS device_index
FROM memory_events WHERE device_index IS NOT NULL GROUP BY process_id;

CREATE TEMP TABLE driver_lives AS
SELECT
    d.life_id, d.process_id, coalesce(d.device_index, p.device_index) AS device_index, d.source, d.address, d.generation,
    d.size_bytes AS allocated_bytes, coalesce(d.memory_kind, 'unknown') AS memory_kind, d.stream_id, d.context_id, d.pool_id,
    d.alloc_ts_ns, d.free_ts_ns, d.is_alloc_before_window, d.is_free_inferred, d.alloc_correlation_id, d.free_correlation_id,
    coalesce(d.alloc_call_path_id, t.alloc_call_path_id) AS alloc_call_path_id,
    coalesce(d.free_call_path_id, t.free_call_path_id) AS free_call_path_id,
    t.life_id IS NOT NULL AS has_native_stack, t.time_difference_ns
FROM driver_sightings AS d
LEFT JOIN seen_twice AS t USING (life_id)
LEFT JOIN _process_device AS p USING (process_id)
WHERE d.life_id NOT IN (SELECT ebpf_life_id FROM seen_twice);
