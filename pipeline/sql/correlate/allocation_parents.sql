-- tensor ⊂ segment ⊂ driver allocation, by address range and time. Segments of different times may overlap, so address
-- space is cut at every segment's ends: a tensor's piece is found by address, then the life of the piece by time.
CREATE TEMP TABLE _holders AS
SELECT allocation_id, process_id, device_index, address AS low, address + allocated_bytes AS high,
    coalesce(alloc_ts_ns, -9223372036854775807) AS from_ns,
    coalesce(free_ts_ns, 9223372036854775807) AS until_ns
FROM numbered_lives WHERE level = 'segment';

CREATE TEMP TABLE _holder_pieces AS
SELECT process_id, device_index, low, high FROM (
    SELECT process_id, device_index, edge AS low,
        lead(edge) OVER (PARTITION BY process_id, device_index ORDER BY edge) AS high
    FROM (
        SELECT process_id, device_index, low AS edge FROM _holders
        UNION SELECT process_id, device_index, high FROM _holders
    )
)
WHERE high IS NOT NULL;

CREATE TEMP TABLE _held_pieces AS
SELECT p.process_id, p.device_index, p.low, h.allocation_id, h.from_ns, h.until_ns
FROM _holder_pieces AS p
JOIN _holders AS h
    ON h.process_id = p.process_id AND h.device_index = p.device_index AND h.low <= p.low AND h.high >= p.high;

CREATE TEMP TABLE _tensor_piece AS
SELECT a.process_id, a.device_index, a.address, p.low
FROM (SELECT DISTINCT process_id, device_index, address FROM numbered_lives WHERE level = 'tensor') AS a
ASOF JOIN _holder_pieces AS p
    ON p.process_id = a.process_id AND p.device_index = a.device_index AND p.low <= a.address
WHERE p.high > a.address;

CREATE TEMP TABLE _tensor_parents AS
SELECT t.allocation_id, h.allocation_id AS parent_allocation_id
FROM numbered_lives AS t
JOIN _tensor_piece AS p
    ON p.process_id = t.process_id AND p.device_index = t.device_index AND p.address = t.address
JOIN _held_pieces AS h
    ON h.process_id = p.process_id AND h.device_index = p.device_index AND h.low = p.low
WHERE t.level = 'tensor'
    AND coalesce(t.alloc_ts_ns, h.from_ns) >= h.from_ns
    AND coalesce(t.alloc_ts_ns, h.from_ns) <= h.until_ns
    AND coalesce(t.free_ts_ns, t.alloc_ts_ns, h.until_ns) <= h.until_ns
QUALIFY row_number() OVER (PARTITION BY t.allocation_id ORDER BY h.from_ns DESC, h.allocation_id) = 1;

-- Clocks agree within `clock_tolerance_ns`; a segment is recorded after the driver call that made it.
CREATE TEMP TABLE _segment_parents AS
SELECT s.allocation_id, d.allocation_id AS parent_allocation_id, s.alloc_ts_ns - d.alloc_ts_ns AS time_difference_ns
FROM numbered_lives AS s
JOIN numbered_lives AS d
    ON d.level = 'driver' AND d.process_id = s.process_id AND d.memory_kind <> 'static'
    AND d.address <= s.address AND d.address + d.allocated_bytes > s.address
WHERE s.level = 'segment'
    AND coalesce(d.alloc_ts_ns <= s.alloc_ts_ns + getvariable('clock_tolerance_ns'), true)
    AND coalesce(d.free_ts_ns >= s.alloc_ts_ns - getvariable('clock_tolerance_ns'), true)
QUALIFY row_number() OVER (PARTITION BY s.allocation_id ORDER BY abs(s.alloc_ts_ns - d.alloc_ts_ns) NULLS LAST, d.allocation_id) = 1;

CREATE TEMP TABLE allocation_parents AS
SELECT allocation_id, parent_allocation_id, CAST(NULL AS BIGINT) AS time_difference_ns FROM _tensor_parents
UNION ALL
SELECT allocation_id, parent_allocation_id, time_difference_ns FROM _segment_parents;
