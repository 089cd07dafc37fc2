-- Caching-allocator blocks from alloc to free, one row a life of an address.
--
-- | event          | previous at the address | means                                            |
-- | alloc          | anything                | a new life; if the last one is open its free was lost |
-- | free_requested | not alloc               | a life that began before the window              |
-- | free           | free, oom or nothing    | a life that began before the window              |
-- A profiler's trace (Kineto) tells of the same tensors as a snapshot of the process: of the trace only what happened before
-- the snapshot's history began counts, `until_ns`, which is null where none of it does.
CREATE TEMP TABLE _told_twice AS
SELECT k.file_id, k.process_id, k.device_index, s.until_ns
FROM (
    SELECT DISTINCT file_id, process_id, device_index FROM memory_events WHERE level = 'tensor' AND source = 'kineto'
) AS k
JOIN (
    SELECT process_id, device_index, min(ts_ns) AS until_ns FROM memory_events
    WHERE level = 'tensor' AND source <> 'kineto' GROUP BY process_id, device_index
) AS s ON s.process_id = k.process_id AND s.device_index = k.device_index;

CREATE TEMP TABLE _file_order AS
SELECT file_id, any_value(source) = 'kineto' AS is_profiled, row_number() OVER (ORDER BY min(ts_ns) NULLS FIRST, file_id) AS place
FROM memory_events WHERE level = 'tensor' GROUP BY file_id;

CREATE TEMP TABLE _owners AS
SELECT process_id, device_index, row_number() OVER (ORDER BY process_id, device_index) AS owner
FROM memory_events WHERE level = 'tensor' GROUP BY process_id, device_index;

-- Events of one address stand together, in their order: an empty OVER goes along the sorted rows, and so does the next one
-- along those of them that begin a life. What happened is a number (1 alloc, 2 free_requested, 3 free), as text would be
-- twice as dear. A life takes at most two more events: the request to free, then the free.
CREATE TEMP TABLE _numbered_lives AS
WITH sorted AS NOT MATERIALIZED (
    SELECT w.owner, e.address, (o.place << 40) + e.event_index AS seq, e.ts_ns, e.size_bytes, e.stream_id, e.call_path_id,
        (CASE e.action WHEN 'alloc' THEN 1 WHEN 'free_requested' THEN 2 ELSE 3 END)::TINYINT AS step
    FROM memory_events AS e
    JOIN _file_order AS o USING (file_id)
    JOIN _owners AS w
        ON w.process_id IS NOT DISTINCT FROM e.process_id AND w.device_index IS NOT DISTINCT FROM e.device_index
    LEFT JOIN _told_twice AS u ON u.file_id = e.file_id AND u.process_id = e.process_id AND u.device_index = e.device_index
    WHERE e.level = 'tensor' AND e.action IN ('alloc', 'free_requested', 'free') AND e.address IS NOT NULL
        AND (u.file_id IS NULL OR e.ts_ns < u.until_ns)
    ORDER BY w.owner, e.address, seq
),
neighbours AS NOT MATERIALIZED (
    SELECT
        *,
        CASE WHEN address = lag(address) OVER () AND owner = lag(owner) OVER () THEN lag(step) OVER () END AS step_before,
        CASE WHEN address = lead(address) OVER () AND owner = lead(owner) OVER () THEN lead(step) OVER () END AS step_1,
        CASE WHEN address = lead(address, 2) OVER () AND owner = lead(owner, 2) OVER () THEN lead(step, 2) OVER () END AS step_2,
        lead(ts_ns) OVER () AS ts_1_ns, lead(ts_ns, 2) OVER () AS ts_2_ns, lead(call_path_id) OVER () AS path_1
    FROM sorted
),
lives AS NOT MATERIALIZED (
    SELECT
        owner, address, seq >> 40 AS file_place, size_bytes, stream_id,
        step <> 1 AS is_alloc_before_window,
        CASE WHEN step = 1 THEN ts_ns END AS alloc_ts_ns,
        CASE WHEN step = 1 THEN call_path_id END AS alloc_call_path_id,
        CASE WHEN step = 2 THEN ts_ns WHEN step = 1 AND step_1 = 2 THEN ts_1_ns END AS free_requested_ts_ns,
        step = 3 OR coalesce(step_1 = 3, false) OR coalesce(step = 1 AND step_1 = 2 AND step_2 = 3, false) AS is_freed,
        CASE
            WHEN step = 3 THEN ts_ns
            WHEN step_1 = 3 THEN ts_1_ns
            WHEN step = 1 AND step_1 = 2 AND step_2 = 3 THEN ts_2_ns
        END AS free_ts_ns,
        CASE WHEN step <> 1 THEN call_path_id WHEN step_1 <> 1 THEN path_1 END AS free_call_path_id
    FROM neighbours
    WHERE step = 1 OR (step = 2 AND step_before IS DISTINCT FROM 1) OR (step = 3 AND coalesce(step_before = 3, true))
),
placed AS NOT MATERIALIZED (
    SELECT
        *, row_number() OVER () AS place,
        coalesce(address <> lag(address) OVER () OR owner <> lag(owner) OVER (), true) AS is_first,
        coalesce(address = lead(address) OVER () AND owner = lead(owner) OVER (), false) AS has_next,
        lead(coalesce(alloc_ts_ns, free_requested_ts_ns, free_ts_ns)) OVER () AS next_ts_ns
    FROM lives
)
SELECT * EXCLUDE (place, is_first), place - max(CASE WHEN is_first THEN place END) OVER (ROWS UNBOUNDED PRECEDING) AS generation
FROM placed;

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
SELECT e.process_id, e.device_index, max(e.ts_ns) AS end_ns FROM memory_events AS e
LEFT JOIN _told_twice AS u ON u.file_id = e.file_id AND u.process_id = e.process_id AND u.device_index = e.device_index
WHERE e.level = 'tensor' AND (u.file_id IS NULL OR e.ts_ns < u.until_ns)
GROUP BY ALL;

CREATE TEMP TABLE _ended_lives AS
SELECT
    l.* EXCLUDE (owner, file_place, has_next, next_ts_ns), w.process_id, w.device_index, o.is_profiled,
    NOT is_freed AND has_next AS is_free_inferred,
    CASE WHEN is_freed THEN free_ts_ns WHEN has_next THEN next_ts_ns END AS ended_ts_ns,
    is_freed OR has_next AS is_ended
FROM _numbered_lives AS l
JOIN _owners AS w USING (owner)
JOIN _file_order AS o ON o.place = l.file_place;

-- A trace gives the block's size, a snapshot's event the size that was asked for.
CREATE TEMP TABLE tensor_lives AS
SELECT
    l.process_id, l.device_index, l.address, l.generation,
    coalesce(b.allocated_bytes, greatest(512, (l.size_bytes + 511) // 512 * 512)) AS allocated_bytes,
    coalesce(b.requested_bytes, CASE WHEN NOT l.is_profiled THEN l.size_bytes END) AS requested_bytes,
    CASE WHEN l.is_profiled THEN 'kineto' ELSE 'torch' END AS source,
    l.stream_id, b.pool_id,
    l.alloc_ts_ns, l.free_requested_ts_ns,
    CASE WHEN l.is_ended THEN l.ended_ts_ns WHEN d.process_id IS NOT NULL AND b.address IS NULL THEN w.end_ns END AS free_ts_ns,
    l.is_alloc_before_window,
    l.is_free_inferred OR (NOT l.is_ended AND d.process_id IS NOT NULL AND b.address IS NULL) AS is_free_inferred,
    b.address IS NULL AND NOT l.is_profiled AS is_size_estimated,
    l.alloc_call_path_id, l.free_call_path_id,
    CASE
        WHEN l.is_ended AND l.ended_ts_ns IS NULL THEN 'ended_at_unknown_time'
        WHEN NOT l.is_ended AND d.process_id IS NOT NULL AND b.address IS NULL THEN 'live_event_without_block'
        WHEN NOT l.is_profiled AND b.requested_bytes <> l.size_bytes THEN 'block_size_differs_from_event'
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
    b.allocated_bytes, b.requested_bytes, 'torch', b.stream_id, b.pool_id,
    NULL, CASE WHEN b.block_state = 'active_pending_free' THEN w.end_ns END, NULL,
    true, false, false, b.call_path_id, NULL,
    CASE WHEN w.process_id IS NOT NULL THEN 'block_without_event' END
FROM _dumped_blocks AS b
LEFT JOIN _window_end AS w ON w.process_id = b.process_id AND w.device_index = b.device_index
WHERE NOT EXISTS (
    SELECT 1 FROM _ended_lives AS l
    WHERE NOT l.is_ended AND l.process_id = b.process_id AND l.device_index = b.device_index AND l.address = b.address
);
