-- Lives of all levels in one relation, numbered in a stable order. One that ended nobody knows when is left out, and counted
-- in diagnostics: without a time of its end it would pass for a life that goes on.
CREATE TEMP TABLE numbered_lives AS
SELECT * EXCLUDE (level_order), row_number() OVER () AS allocation_id
FROM (
    SELECT * FROM (
        SELECT 'tensor' AS level, 1 AS level_order, source, process_id, device_index, address, generation, allocated_bytes,
            requested_bytes, 'device' AS memory_kind, stream_id, CAST(NULL AS BIGINT) AS context_id, pool_id, alloc_ts_ns,
            free_requested_ts_ns, free_ts_ns, is_alloc_before_window, is_free_inferred, is_size_estimated,
            CAST(NULL AS BIGINT) AS alloc_correlation_id, CAST(NULL AS BIGINT) AS free_correlation_id, alloc_call_path_id,
            free_call_path_id, CAST(NULL AS BIGINT) AS life_id
        FROM tensor_lives WHERE difference IS DISTINCT FROM 'ended_at_unknown_time'
        UNION ALL
        SELECT 'segment', 2, 'torch', process_id, device_index, address, generation, allocated_bytes, NULL, 'device', stream_id, NULL,
            pool_id, alloc_ts_ns, NULL, free_ts_ns, is_alloc_before_window, is_free_inferred, false, NULL, NULL, alloc_call_path_id,
            free_call_path_id, NULL
        FROM segment_lives WHERE difference IS DISTINCT FROM 'segment_ended_at_unknown_time'
        UNION ALL
        SELECT 'driver', 3, source, process_id, device_index, address, generation, allocated_bytes, allocated_bytes, memory_kind,
            stream_id, context_id, pool_id, alloc_ts_ns, NULL, free_ts_ns, is_alloc_before_window, is_free_inferred, false,
            alloc_correlation_id, free_correlation_id, alloc_call_path_id, free_call_path_id, life_id
        FROM driver_lives
        UNION ALL
        SELECT 'host', 4, source, process_id, NULL, address, generation, allocated_bytes, requested_bytes, memory_kind, NULL, NULL,
            NULL, alloc_ts_ns, NULL, free_ts_ns, is_alloc_before_window, is_free_inferred, false, NULL, NULL, alloc_call_path_id,
            free_call_path_id, NULL
        FROM host_lives
    )
    ORDER BY level_order, process_id, device_index, alloc_ts_ns NULLS FIRST, address, generation, source
);
