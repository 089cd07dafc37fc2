-- Ranges that the caching allocator holds from the driver, from segment_alloc to segment_free, or piece by piece from
-- segment_map to segment_unmap. Address space is cut at every boundary, each piece is replayed, and pieces that were
-- mapped and unmapped by the same events are put together again:
--   map [0, 40), unmap [0, 20), dump [20, 40)   →   [0, 20) ended, [20, 40) live
CREATE TEMP TABLE _segment_events AS
SELECT
    e.process_id, e.device_index, e.address AS low, e.address + e.size_bytes AS high, e.ts_ns,
    CASE WHEN e.action IN ('alloc', 'map') THEN 1 ELSE 0 END AS starts,
    e.stream_id, e.call_path_id,
    (o.place << 40) + e.event_index AS seq
FROM memory_events AS e
JOIN (
    SELECT file_id, row_number() OVER (ORDER BY min(ts_ns) NULLS FIRST, file_id) AS place
    FROM memory_events WHERE level = 'segment' GROUP BY file_id
) AS o USING (file_id)
WHERE e.level = 'segment' AND e.action IN ('alloc', 'free', 'map', 'unmap') AND e.address IS NOT NULL AND e.size_bytes > 0;

CREATE TEMP TABLE _dumped_segments AS
SELECT process_id, device_index, address AS low, address + total_bytes AS high, stream_id, pool_id, call_path_id
FROM segments
WHERE dump_index = 0 AND address IS NOT NULL AND total_bytes > 0;

CREATE TEMP TABLE _pieces AS
SELECT process_id, device_index, low, high FROM (
    SELECT process_id, device_index, edge AS low,
        lead(edge) OVER (PARTITION BY process_id, device_index ORDER BY edge) AS high
    FROM (
        SELECT process_id, device_index, low AS edge FROM _segment_events
        UNION SELECT process_id, device_index, high FROM _segment_events
        UNION SELECT process_id, device_index, low FROM _dumped_segments
        UNION SELECT process_id, device_index, high FROM _dumped_segments
    )
)
WHERE high IS NOT NULL;

CREATE TEMP TABLE _piece_lives AS
SELECT
    process_id, device_index, low, high, generation,
    max(CASE WHEN starts = 1 THEN seq END) AS alloc_seq,
    max(CASE WHEN starts = 0 THEN seq END) AS free_seq,
    max(CASE WHEN starts = 1 THEN ts_ns END) AS alloc_ts_ns,
    max(CASE WHEN starts = 0 THEN ts_ns END) AS free_ts_ns,
    max(CASE WHEN starts = 1 THEN stream_id END) AS stream_id,
    max(CASE WHEN starts = 1 THEN call_path_id END) AS alloc_call_path_id,
    max(CASE WHEN starts = 0 THEN call_path_id END) AS free_call_path_id
FROM (
    SELECT *, sum(begins) OVER (PARTITION BY process_id, device_index, low ORDER BY seq) - 1 AS generation
    FROM (
        SELECT
            p.process_id, p.device_index, p.low, p.high, e.seq, e.ts_ns, e.starts, e.stream_id, e.call_path_id,
            CASE
                WHEN e.starts = 1 THEN 1
                WHEN lag(e.starts) OVER (PARTITION BY p.process_id, p.device_index, p.low ORDER BY e.seq) = 1 THEN 0
                ELSE 1
            END AS begins
        FROM _pieces AS p
        JOIN _segment_events AS e
            ON e.process_id = p.process_id AND e.device_index = p.device_index AND e.low <= p.low AND e.high >= p.high
    )
)
GROUP BY process_id, device_index, low, high, generation;

CREATE TEMP TABLE _dumped_pieces AS
SELECT p.process_id, p.device_index, p.low, p.high, s.low AS segment_low, s.stream_id, s.pool_id, s.call_path_id
FROM _pieces AS p
JOIN _dumped_segments AS s
    ON s.process_id = p.process_id AND s.device_index = p.device_index AND s.low <= p.low AND s.high >= p.high;

CREATE TEMP TABLE _segment_devices AS
SELECT DISTINCT process_id, device_index FROM (
    SELECT process_id, device_index FROM blocks WHERE dump_index = 0
    UNION ALL SELECT process_id, device_index FROM segments WHERE dump_index = 0
);

CREATE TEMP TABLE _segment_window AS
SELECT process_id, device_index, max(ts_ns) AS end_ns
FROM memory_events WHERE level IN ('tensor', 'segment') GROUP BY ALL;

CREATE TEMP TABLE _ended_pieces AS
SELECT
    l.process_id, l.device_index, l.low, l.high, l.generation, l.alloc_seq, l.alloc_ts_ns, l.stream_id, d.pool_id,
    l.alloc_call_path_id, l.free_call_path_id,
    l.alloc_seq IS NULL AS is_alloc_before_window,
    l.free_seq IS NULL AND (l.next_seq IS NOT NULL OR (v.process_id IS NOT NULL AND d.low IS NULL)) AS is_free_inferred,
    CASE
        WHEN l.free_seq IS NOT NULL THEN l.free_ts_ns
        WHEN l.next_seq IS NOT NULL THEN l.next_ts_ns
        WHEN v.process_id IS NOT NULL AND d.low IS NULL THEN w.end_ns
    END AS free_ts_ns,
    coalesce(l.free_seq, l.next_seq, CASE WHEN v.process_id IS NOT NULL AND d.low IS NULL THEN 0 END) AS end_seq,
    CASE
        WHEN l.free_seq IS NOT NULL AND l.free_ts_ns IS NULL THEN 'segment_ended_at_unknown_time'
        WHEN l.free_seq IS NULL AND l.next_seq IS NOT NULL AND l.next_ts_ns IS NULL THEN 'segment_ended_at_unknown_time'
        WHEN l.free_seq IS NULL AND l.next_seq IS NULL AND v.process_id IS NOT NULL AND d.low IS NULL
            THEN 'live_segment_event_without_segment'
    END AS difference
FROM (
    SELECT *, lead(alloc_seq) OVER piece AS next_seq, lead(alloc_ts_ns) OVER piece AS next_ts_ns
    FROM _piece_lives
    WINDOW piece AS (PARTITION BY process_id, device_index, low ORDER BY generation)
) AS l
LEFT JOIN _segment_devices AS v ON v.process_id = l.process_id AND v.device_index = l.device_index
LEFT JOIN _segment_window AS w ON w.process_id = l.process_id AND w.device_index = l.device_index
LEFT JOIN _dumped_pieces AS d
    ON l.free_seq IS NULL AND l.next_seq IS NULL
    AND d.process_id = l.process_id AND d.device_index = l.device_index AND d.low = l.low
UNION ALL
SELECT
    d.process_id, d.device_index, d.low, d.high,
    coalesce((SELECT max(l.generation) + 1 FROM _piece_lives AS l
        WHERE l.process_id = d.process_id AND l.device_index = d.device_index AND l.low = d.low), 0),
    -d.segment_low::BIGINT, NULL, d.stream_id, d.pool_id, d.call_path_id, NULL, true, false, NULL, NULL,
    CASE WHEN w.process_id IS NOT NULL THEN 'segment_without_event' END
FROM _dumped_pieces AS d
LEFT JOIN _segment_window AS w ON w.process_id = d.process_id AND w.device_index = d.device_index
WHERE NOT EXISTS (
    SELECT 1 FROM _piece_lives AS l
    WHERE l.process_id = d.process_id AND l.device_index = d.device_index AND l.low = d.low AND l.free_seq IS NULL
        AND l.generation = (SELECT max(m.generation) FROM _piece_lives AS m
            WHERE m.process_id = l.process_id AND m.device_index = l.device_index AND m.low = l.low)
);

CREATE TEMP TABLE segment_lives AS
SELECT
    process_id, device_index, min(low) AS address, max(generation) AS generation,
    sum(high - low)::BIGINT AS allocated_bytes,
    max(stream_id) AS stream_id, max(pool_id) AS pool_id,
    max(alloc_ts_ns) AS alloc_ts_ns, max(free_ts_ns) AS free_ts_ns,
    bool_or(is_alloc_before_window) AS is_alloc_before_window,
    bool_or(is_free_inferred) AS is_free_inferred,
    max(alloc_call_path_id) AS alloc_call_path_id, max(free_call_path_id) AS free_call_path_id,
    max(difference) AS difference
FROM (
    SELECT *, sum(breaks) OVER (PARTITION BY process_id, device_index, alloc_seq, end_seq ORDER BY low) AS island
    FROM (
        SELECT *, CASE
            WHEN lag(high) OVER (PARTITION BY process_id, device_index, alloc_seq, end_seq ORDER BY low) = low THEN 0 ELSE 1
        END AS breaks
        FROM _ended_pieces
    )
)
GROUP BY process_id, device_index, alloc_seq, end_seq, island;
