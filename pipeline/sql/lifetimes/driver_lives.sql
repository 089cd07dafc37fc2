-- Driver allocations as CUPTI and eBPF saw them, one row an allocation: where both saw it, CUPTI's row takes eBPF's stack.
CREATE TEMP TABLE _driver_events AS
SELECT
    process_id, source, address, device_index, ts_ns, size_bytes, memory_kind, stream_id, context_id, pool_id, correlation_id,
    call_path_id, clock_aligned,
    CASE WHEN action IN ('alloc', 'map') THEN 1 ELSE 0 END AS starts,
    row_number() OVER (ORDER BY ts_ns, file_id, event_index) AS seq
FROM memory_events
WHERE level = 'driver' AND action IN ('alloc', 'free', 'map', 'unmap') AND coalesce(return_code, 0) = 0
    AND address IS NOT NULL AND address <> 0;

CREATE TEMP TABLE _driver_lives AS
SELECT
    process_id, source, address, generation,
    max(CASE WHEN starts = 1 THEN 1 ELSE 0 END) = 0 AS is_alloc_before_window,
    max(CASE WHEN starts = 0 THEN 1 ELSE 0 END) = 1 AS is_freed,
    max(device_index) AS device_index,
    max(CASE WHEN starts = 1 THEN ts_ns END) AS alloc_ts_ns,
    max(CASE WHEN starts = 0 THEN ts_ns END) AS free_ts_ns,
    coalesce(max(CASE WHEN starts = 1 THEN size_bytes END), nullif(max(size_bytes), 0)) AS size_bytes,
    max(memory_kind) AS memory_kind, max(stream_id) AS stream_id, max(context_id) AS context_id, max(pool_id) AS pool_id,
    max(CASE WHEN starts = 1 THEN correlation_id END) AS alloc_correlation_id,
    max(CASE WHEN starts = 0 THEN correlation_id END) AS free_correlation_id,
    max(CASE WHEN starts = 1 THEN call_path_id END) AS alloc_call_path_id,
    max(CASE WHEN starts = 0 THEN call_path_id END) AS free_call_path_id,
    bool_and(clock_aligned) AS clock_aligned
FROM (
    SELECT *, sum(begins) OVER (PARTITION BY process_id, source, address ORDER BY seq) - 1 AS generation
    FROM (
        SELECT *, CASE
            WHEN starts = 1 THEN 1
            WHEN lag(starts) OVER (PARTITION BY process_id, source, address ORDER BY seq) = 1 THEN 0
            ELSE 1
        END AS begins
        FROM _driver_events
    )
)
GROUP BY process_id, source, address, generation;

CREATE TEMP TABLE _driver_ended AS
SELECT
    row_number() OVER (ORDER BY source, process_id, address, generation) AS life_id,
    * EXCLUDE (free_ts_ns, next_ts_ns, has_next),
    CASE WHEN is_freed THEN free_ts_ns WHEN has_next THEN next_ts_ns END AS free_ts_ns,
    NOT is_freed AND has_next AS is_free_inferred
FROM (
    SELECT *,
        lead(coalesce(alloc_ts_ns, free_ts_ns)) OVER address_lives AS next_ts_ns,
        lead(generation) OVER address_lives IS NOT NULL AS has_next
    FROM _driver_lives
    WINDOW address_lives AS (PARTITION BY process_id, source, address ORDER BY generation)
);

-- One call seen twice: equal process, address and size, each the other's nearest in time, within a second on one clock.
CREATE TEMP TABLE seen_twice AS
SELECT c.life_id, e.life_id AS ebpf_life_id, e.alloc_call_path_id, e.free_call_path_id, e.alloc_ts_ns - c.alloc_ts_ns AS time_difference_ns
FROM _driver_ended AS c
JOIN _driver_ended AS e
    ON e.source = 'ebpf' AND c.source <> 'ebpf'
    AND e.process_id = c.process_id AND e.address = c.address AND e.size_bytes = c.size_bytes
WHERE c.clock_aligned AND e.clock_aligned AND abs(e.alloc_ts_ns - c.alloc_ts_ns) <= 1000000000
QUALIFY row_number() OVER (PARTITION BY c.life_id ORDER BY abs(e.alloc_ts_ns - c.alloc_ts_ns), e.life_id) = 1
    AND row_number() OVER (PARTITION BY e.life_id ORDER BY abs(e.alloc_ts_ns - c.alloc_ts_ns), c.life_id) = 1;

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
FROM _driver_ended AS d
LEFT JOIN seen_twice AS t USING (life_id)
LEFT JOIN _process_device AS p USING (process_id)
WHERE d.life_id NOT IN (SELECT ebpf_life_id FROM seen_twice);
