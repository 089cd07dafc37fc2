-- Caching-allocator blocks from alloc to free, one row a life of an address.
--
-- | event          | previous at the address | means                                            |
-- | alloc          | anything                | a new life; if the last one is open its free was lost |
-- | free_requested | not alloc               | a life that began before the window              |
-- | free           | free, oom or nothing    | a life that began before the window              |
CREATE TEMP TABLE _file_order AS
SELECT file_id, row_number() OVER (ORDER BY min(ts_ns) NULLS FIRST, file_id) AS place
FROM memory_events WHERE level = 'tensor' GROUP BY file_id;

CREATE TEMP TABLE _tensor_events AS
SELECT
    process_id, device_index, address, action, ts_ns, size_bytes, stream_id, call_path_id, seq,
    lag(action) OVER events AS previous,
    lead(action) OVER events AS action_1, lead(ts_ns) OVER events AS ts_1_ns, lead(call_path_id) OVER events AS path_1,
    lead(action, 2) OVER events AS action_2, lead(ts_ns, 2) OVER events AS ts_2_ns
FROM (
    SELECT e.*, (o.place << 40) + e.event_index AS seq
    FROM memory_events AS e JOIN _file_order AS o USING (file_id)
    WHERE level = 'tensor' AND action IN ('alloc', 'free_requested', 'free') AND address IS NOT NULL
)
WINDOW events AS (PARTITION BY process_id, device_index, address ORDER BY seq);

-- A life takes at most two more events: the request to free, then the free.
CREATE TEMP TABLE _tensor_lives AS
SELECT
    process_id, device_index, address, seq AS first_seq, size_bytes, stream_id,
    action <> 'alloc' AS is_alloc_before_window,
    CASE WHEN action = 'alloc' THEN ts_ns END AS alloc_ts_ns,
    CASE WHEN action = 'alloc' THEN call_path_id END AS alloc_call_path_id,
    CASE
        WHEN action = 'free_requested' THEN ts_ns
        WHEN action = 'alloc' AND action_1 = 'free_requested' THEN ts_1_ns
    END AS free_requested_ts_ns,
    action = 'free' OR coalesce(action_1 = 'free' AND action <> 'free', false)
        OR coalesce(action = 'alloc' AND action_1 = 'free_requested' AND action_2 = 'free', false) AS is_freed,
    CASE
        WHEN action = 'free' THEN ts_ns
        WHEN action_1 = 'free' THEN ts_1_ns
        WHEN action = 'alloc' AND action_1 = 'free_requested' AND action_2 = 'free' THEN ts_2_ns
    END AS free_ts_ns,
    CASE WHEN action <> 'alloc' THEN call_path_id WHEN action_1 <> 'alloc' THEN path_1 END AS free_call_path_id
FROM _tensor_events
WHERE action = 'alloc'
    OR (action = 'free_requested' AND previous IS DISTINCT FROM 'alloc')
    OR (action = 'free' AND coalesce(previous = 'free', true));

-- The dump decides what lives: its blocks in use, the last dump of each process.
CREATE TEMP TABLE _dumped_blocks AS
SELECT process_id, device_index, address, allocated_bytes, requested_bytes, block_state, stream_id, pool_id, call_path_id
FROM blocks
WHERE dump_index = 0 AND block_state <> 'inactive' AND address IS NOT NULL;

CREATE TEMP TABLE _dumped_devices AS
SELECT DISTINCT process_id, device_index FROM (
    SELECT process_id, device_index FROM blocks WHERE dump_index = 0
    UNION ALL SELECT process_id, device_index FROM segments WHERE dump_index = 0
);

CREATE TEMP TABLE _window_end AS
SELECT process_id, device_index, max(ts_ns) AS end_ns FROM memory_events WHERE level = 'tensor' GROUP BY ALL;

CREATE TEMP TABLE _ended_lives AS
SELECT
    * EXCLUDE (next_seq, next_ts_ns),
    NOT is_freed AND next_seq IS NOT NULL AS is_free_inferred,
    CASE WHEN is_freed THEN free_ts_ns ELSE next_ts_ns END AS ended_ts_ns,
    is_freed OR next_seq IS NOT NULL AS is_ended
FROM (
    SELECT
        *,
        row_number() OVER address_lives - 1 AS generation,
        lead(first_seq) OVER address_lives AS next_seq,
        lead(coalesce(alloc_ts_ns, free_requested_ts_ns, free_ts_ns)) OVER address_lives AS next_ts_ns
    FROM _tensor_lives
    WINDOW address_lives AS (PARTITION BY process_id, device_index, address ORDER BY first_seq)
);

CREATE TEMP TABLE tensor_lives AS
SELECT
    l.process_id, l.device_index, l.address, l.generation,
    coalesce(b.allocated_bytes, greatest(512, (l.size_bytes + 511) // 512 * 512)) AS allocated_bytes,
    coalesce(b.requested_bytes, l.size_bytes) AS requested_bytes,
    l.stream_id, b.pool_id,
    l.alloc_ts_ns, l.free_requested_ts_ns,
    CASE WHEN l.is_ended THEN l.ended_ts_ns WHEN d.process_id IS NOT NULL AND b.address IS NULL THEN w.end_ns END AS free_ts_ns,
    l.is_alloc_before_window,
    l.is_free_inferred OR (NOT l.is_ended AND d.process_id IS NOT NULL AND b.address IS NULL) AS is_free_inferred,
    b.address IS NULL AS is_size_estimated,
    l.alloc_call_path_id, l.free_call_path_id,
    CASE
        WHEN NOT l.is_ended AND d.process_id IS NOT NULL AND b.address IS NULL THEN 'live_event_without_block'
        WHEN b.requested_bytes <> l.size_bytes THEN 'block_size_differs_from_event'
    END AS difference
FROM _ended_lives AS l
LEFT JOIN _dumped_devices AS d ON d.process_id = l.process_id AND d.device_index = l.device_index
LEFT JOIN _window_end AS w ON w.process_id = l.process_id AND w.device_index = l.device_index
LEFT JOIN _dumped_blocks AS b
    ON NOT l.is_ended AND b.process_id = l.process_id AND b.device_index = l.device_index AND b.address = l.address
UNION ALL
SELECT
    b.process_id, b.device_index, b.address,
    coalesce((SELECT max(l.generation) + 1 FROM _ended_lives AS l
        WHERE l.process_id = b.process_id AND l.device_index = b.device_index AND l.address = b.address), 0),
    b.allocated_bytes, b.requested_bytes, b.stream_id, b.pool_id,
    NULL, CASE WHEN b.block_state = 'active_pending_free' THEN w.end_ns END, NULL,
    true, false, false, b.call_path_id, NULL,
    CASE WHEN w.process_id IS NOT NULL THEN 'block_without_event' END
FROM _dumped_blocks AS b
LEFT JOIN _window_end AS w ON w.process_id = b.process_id AND w.device_index = b.device_index
WHERE NOT EXISTS (
    SELECT 1 FROM _ended_lives AS l
    WHERE NOT l.is_ended AND l.process_id = b.process_id AND l.device_index = b.device_index AND l.address = b.address
);
