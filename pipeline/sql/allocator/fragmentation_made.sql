-- What the caching allocator held at each moment: bytes reserved, handed out and waiting for a stream, and the free blocks
-- between and around them. Free space is what no live block covers of a segment:
--   segment [0, 20), blocks [0, 4) and [8, 10)   →   free [4, 8) and [10, 20), both split off (the segment is in use)
-- Pieces of an expandable segment that touch are one segment.
CREATE TEMP TABLE _last_moments AS
SELECT process_id, device_index, max(moment_id) AS last_id FROM allocator_moments GROUP BY process_id, device_index;

-- Most allocations live between two moments: the first moment after the allocation tells, and only the rest is looked up
-- for the last moment before the free.
CREATE TEMP TABLE _seen AS
SELECT a.process_id, a.device_index, a.level, a.address AS low, a.address + a.allocated_bytes AS high, a.allocated_bytes,
    a.requested_bytes, a.free_requested_ts_ns, a.free_ts_ns, a.pool_id, f.moment_id AS first_id
FROM allocations AS a
ASOF JOIN allocator_moments AS f
    ON f.process_id = a.process_id AND f.device_index = a.device_index
    AND f.ts_ns >= coalesce(a.alloc_ts_ns, -9223372036854775807)
WHERE a.level IN ('tensor', 'segment') AND a.allocated_bytes > 0 AND a.address IS NOT NULL
    AND coalesce(a.free_ts_ns > f.ts_ns, true);

CREATE TEMP TABLE _states AS
SELECT moment_id, level, low, high, pool_id, allocated_bytes, requested_bytes, coalesce(free_requested_ts_ns <= m.ts_ns, false) AS is_pending
FROM (
    SELECT s.*, unnest(range(s.first_id, coalesce(u.moment_id, l.last_id + 1))) AS moment_id
    FROM _seen AS s
    JOIN _last_moments AS l ON l.process_id = s.process_id AND l.device_index = s.device_index
    ASOF LEFT JOIN allocator_moments AS u
        ON u.process_id = s.process_id AND u.device_index = s.device_index AND u.ts_ns >= s.free_ts_ns
)
JOIN allocator_moments AS m USING (moment_id);

CREATE TEMP TABLE _expandable AS
SELECT DISTINCT process_id, device_index FROM (
    SELECT process_id, device_index FROM memory_events WHERE level = 'segment' AND action = 'map'
    UNION ALL SELECT process_id, device_index FROM segments WHERE is_expandable
);

CREATE TEMP TABLE _held_segments AS
SELECT moment_id, min(low) AS low, max(high) AS high, coalesce(max(pool_id) <> '0,0', false) AS is_private
FROM (
    SELECT *, sum(breaks) OVER (PARTITION BY moment_id ORDER BY low) AS island
    FROM (
        SELECT s.moment_id, s.low, s.high, s.pool_id,
            CASE WHEN e.process_id IS NOT NULL AND lag(s.high) OVER (PARTITION BY s.moment_id ORDER BY s.low) = s.low THEN 0 ELSE 1 END AS breaks
        FROM _states AS s
        JOIN allocator_moments AS m USING (moment_id)
        LEFT JOIN _expandable AS e ON e.process_id = m.process_id AND e.device_index = m.device_index
        WHERE s.level = 'segment'
    )
)
GROUP BY moment_id, island;

-- Blocks in their segment; a block that no segment holds (its segment's history was lost) frees no space and counts as handed out only.
CREATE TEMP TABLE _placed_blocks AS
SELECT s.moment_id, g.low AS segment_low, g.high AS segment_high, g.is_private, s.low, least(s.high, g.high) AS high
FROM (SELECT * FROM _states WHERE level = 'tensor') AS s
ASOF JOIN _held_segments AS g ON g.moment_id = s.moment_id AND g.low <= s.low
WHERE g.high > s.low;

CREATE TEMP TABLE _free_blocks AS
SELECT moment_id, next_low - high AS free_bytes, is_used, is_private
FROM (
    SELECT moment_id, high, is_used, is_private,
        coalesce(lead(low) OVER (PARTITION BY moment_id, segment_low ORDER BY low, high), segment_high) AS next_low
    FROM (
        SELECT moment_id, segment_low, segment_high, low, high, true AS is_used, is_private FROM _placed_blocks
        UNION ALL
        SELECT g.moment_id, g.low, g.high, g.low, g.low, u.segment_low IS NOT NULL, g.is_private
        FROM _held_segments AS g
        LEFT JOIN (SELECT DISTINCT moment_id, segment_low FROM _placed_blocks) AS u
            ON u.moment_id = g.moment_id AND u.segment_low = g.low
    )
)
WHERE next_low > high;

CREATE TEMP TABLE _free_sums AS
SELECT moment_id, count(*) AS free_block_count, sum(free_bytes) AS free_bytes, max(free_bytes) AS largest_free_bytes,
    sum(free_bytes) FILTER (is_used) AS split_bytes, sum(free_bytes) FILTER (is_private) AS private_bytes
FROM _free_blocks GROUP BY moment_id;

CREATE TEMP TABLE _state_sums AS
SELECT moment_id,
    sum(allocated_bytes) FILTER (level = 'segment') AS reserved_bytes,
    count(*) FILTER (level = 'segment') AS segment_count,
    CASE WHEN count(pool_id) FILTER (level = 'segment') > 0
        THEN coalesce(sum(allocated_bytes) FILTER (level = 'segment' AND pool_id <> '0,0'), 0) END AS private_reserved_bytes,
    coalesce(sum(allocated_bytes) FILTER (level = 'tensor'), 0) AS active_bytes,
    coalesce(sum(allocated_bytes) FILTER (level = 'tensor' AND is_pending), 0) AS pending_bytes,
    sum(requested_bytes) FILTER (level = 'tensor' AND requested_bytes IS NOT NULL) AS requested_bytes,
    sum(allocated_bytes) FILTER (level = 'tensor' AND requested_bytes IS NOT NULL) AS rounded_bytes
FROM _states GROUP BY moment_id;

CREATE TEMP TABLE fragmentation_made AS
SELECT
    m.process_id, m.device_index, m.ts_ns, m.moment,
    s.reserved_bytes::BIGINT AS reserved_bytes,
    (s.active_bytes - s.pending_bytes)::BIGINT AS allocated_bytes,
    s.active_bytes::BIGINT AS active_bytes,
    s.pending_bytes::BIGINT AS pending_free_bytes,
    coalesce(f.free_bytes, 0)::BIGINT AS inactive_bytes,
    coalesce(f.split_bytes, 0)::BIGINT AS inactive_split_bytes,
    s.segment_count,
    coalesce(f.free_block_count, 0) AS free_block_count,
    f.largest_free_bytes::BIGINT AS largest_free_bytes,
    (f.free_bytes / f.free_block_count)::BIGINT AS mean_free_bytes,
    1 - f.largest_free_bytes / f.free_bytes AS external_fragmentation_ratio,
    1 - s.requested_bytes / s.rounded_bytes AS internal_fragmentation_ratio,
    s.private_reserved_bytes::BIGINT AS private_reserved_bytes,
    CASE WHEN s.private_reserved_bytes IS NOT NULL THEN coalesce(f.private_bytes, 0) END::BIGINT AS private_inactive_bytes
FROM allocator_moments AS m
JOIN _state_sums AS s USING (moment_id)
LEFT JOIN _free_sums AS f USING (moment_id)
WHERE s.reserved_bytes IS NOT NULL;
