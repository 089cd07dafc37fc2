-- One call seen twice: equal process, address and size, each the other's nearest in time, within a second on one clock.
CREATE TEMP TABLE seen_twice AS
SELECT c.life_id, e.life_id AS ebpf_life_id, e.alloc_call_path_id, e.free_call_path_id, e.alloc_ts_ns - c.alloc_ts_ns AS time_difference_ns
FROM driver_sightings AS c
JOIN driver_sightings AS e
    ON e.source = 'ebpf' AND c.source <> 'ebpf'
    AND e.process_id = c.process_id AND e.address = c.address AND e.size_bytes = c.size_bytes
WHERE c.clock_aligned AND e.clock_aligned AND abs(e.alloc_ts_ns - c.alloc_ts_ns) <= 1000000000
QUALIFY row_number() OVER (PARTITION BY c.life_id ORDER BY abs(e.alloc_ts_ns - c.alloc_ts_ns), e.life_id) = 1
    AND row_number() OVER (PARTITION BY e.life_id ORDER BY abs(e.alloc_ts_ns - c.alloc_ts_ns), c.life_id) = 1;
