-- The caching allocator's segments at each of the first failed allocations: what lies in them and what is free, with the stream
-- and the pool that they belong to (null: not known) and the stream that asked. Pieces of an expandable segment that touch are one.
CREATE TEMP TABLE _failures AS
SELECT o.oom_event_id, o.process_id, o.device_index, o.ts_ns, m.stream_id
FROM (
    SELECT * FROM oom_events_made WHERE level <> 'host' AND process_id IS NOT NULL AND device_index IS NOT NULL AND ts_ns IS NOT NULL
    ORDER BY oom_event_id LIMIT getvariable('oom_events_told')
) AS o
LEFT JOIN (
    SELECT process_id, device_index, ts_ns, min(stream_id) AS stream_id FROM memory_events WHERE action = 'oom' AND level = 'tensor' GROUP BY ALL
) AS m USING (process_id, device_index, ts_ns);

CREATE TEMP TABLE _failure_states AS
SELECT f.oom_event_id, a.level, a.address AS low, a.address + a.allocated_bytes AS high, a.stream_id, a.pool_id,
    coalesce(a.free_requested_ts_ns <= f.ts_ns, false) AS is_pending
FROM _failures AS f
JOIN allocations AS a ON a.process_id = f.process_id AND a.device_index = f.device_index
    AND coalesce(a.alloc_ts_ns, -9223372036854775807) <= f.ts_ns AND coalesce(a.free_ts_ns, 9223372036854775807) > f.ts_ns
WHERE a.level IN ('tensor', 'segment') AND a.allocated_bytes > 0 AND a.address IS NOT NULL;

CREATE TEMP TABLE _mapped AS
SELECT DISTINCT process_id, device_index FROM (
    SELECT process_id, device_index FROM memory_events WHERE level = 'segment' AND action = 'map'
    UNION ALL SELECT process_id, device_index FROM segments WHERE is_expandable
);

CREATE TEMP TABLE _failure_segments AS
SELECT oom_event_id, min(low) AS low, max(high) AS high, max(stream_id) AS stream_id, max(pool_id) AS pool_id, any_value(is_expandable) AS is_expandable
FROM (
    SELECT *, sum(breaks) OVER (PARTITION BY oom_event_id ORDER BY low) AS island
    FROM (
        SELECT s.*, e.process_id IS NOT NULL AS is_expandable,
            CASE WHEN e.process_id IS NOT NULL AND lag(s.high) OVER (PARTITION BY s.oom_event_id ORDER BY s.low) = s.low THEN 0 ELSE 1 END AS breaks
        FROM _failure_states AS s
        JOIN _failures AS f USING (oom_event_id)
        LEFT JOIN _mapped AS e ON e.process_id = f.process_id AND e.device_index = f.device_index
        WHERE s.level = 'segment'
    )
)
GROUP BY oom_event_id, island;

CREATE TEMP TABLE _failure_blocks AS
SELECT s.oom_event_id, g.low AS segment_low, s.low, least(s.high, g.high) AS high, s.is_pending
FROM (SELECT * FROM _failure_states WHERE level = 'tensor') AS s
ASOF JOIN _failure_segments AS g ON g.oom_event_id = s.oom_event_id AND g.low <= s.low
WHERE g.high > s.low;

CREATE TEMP TABLE _failure_gaps AS
SELECT oom_event_id, segment_low, next_low - high AS free_bytes
FROM (
    SELECT oom_event_id, segment_low, high,
        coalesce(lead(low) OVER (PARTITION BY oom_event_id, segment_low ORDER BY low, high), segment_high) AS next_low
    FROM (
        SELECT b.oom_event_id, b.segment_low, g.high AS segment_high, b.low, b.high
        FROM _failure_blocks AS b JOIN _failure_segments AS g ON g.oom_event_id = b.oom_event_id AND g.low = b.segment_low
        UNION ALL SELECT oom_event_id, low, high, low, low FROM _failure_segments
    )
)
WHERE next_low > high;

CREATE TEMP TABLE oom_segments AS
SELECT f.oom_event_id, g.low AS address, (g.high - g.low)::BIGINT AS total_bytes, g.stream_id, f.stream_id AS asking_stream_id, g.pool_id, g.is_expandable,
    coalesce(b.used_bytes, 0)::BIGINT AS used_bytes, coalesce(b.pending_bytes, 0)::BIGINT AS pending_bytes,
    coalesce(b.largest_used_bytes, 0)::BIGINT AS largest_used_bytes, coalesce(x.free_bytes, 0)::BIGINT AS free_bytes,
    coalesce(x.largest_free_bytes, 0)::BIGINT AS largest_free_bytes
FROM _failure_segments AS g
JOIN _failures AS f USING (oom_event_id)
LEFT JOIN (
    SELECT oom_event_id, segment_low, sum(high - low) AS used_bytes, sum(high - low) FILTER (is_pending) AS pending_bytes,
        max(high - low) AS largest_used_bytes
    FROM _failure_blocks GROUP BY oom_event_id, segment_low
) AS b ON b.oom_event_id = g.oom_event_id AND b.segment_low = g.low
LEFT JOIN (
    SELECT oom_event_id, segment_low, sum(free_bytes) AS free_bytes, max(free_bytes) AS largest_free_bytes
    FROM _failure_gaps GROUP BY oom_event_id, segment_low
) AS x ON x.oom_event_id = g.oom_event_id AND x.segment_low = g.low;
