-- Driver allocations as each producer saw them, one row a life of an address: `alloc` to `free`, as with tensors.
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

CREATE TEMP TABLE driver_sightings AS
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
