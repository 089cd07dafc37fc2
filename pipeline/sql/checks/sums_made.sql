-- Sums that must agree between tables: name of the fault, how many times it was found, and the first one in words.
CREATE TEMP TABLE _ends AS
SELECT process_id, device_index, level, max(ts_ns) AS end_ns, arg_max(live_bytes, ts_ns) AS end_bytes,
    arg_max(live_count, ts_ns) AS end_count, quantile_disc(ts_ns, 0.5) AS middle_ns, min(ts_ns) AS first_ns
FROM live_bytes WHERE pending_free_bytes IS NOT NULL GROUP BY ALL;

CREATE TEMP TABLE _middles AS
SELECT e.process_id, e.device_index, e.level, e.middle_ns, any_value(b.live_bytes) AS middle_bytes
FROM _ends AS e JOIN live_bytes AS b
    ON b.process_id = e.process_id AND b.device_index = e.device_index AND b.level = e.level AND b.ts_ns = e.middle_ns
WHERE b.pending_free_bytes IS NOT NULL GROUP BY ALL;

-- Allocated less freed, from the allocations themselves: at the end, and at one moment in the middle.
CREATE TEMP TABLE _lives AS
SELECT a.process_id, a.device_index, a.level,
    coalesce(sum(a.allocated_bytes), 0) - coalesce(sum(a.allocated_bytes) FILTER (a.free_ts_ns IS NOT NULL), 0) AS end_bytes,
    count(*) - count(a.free_ts_ns) AS end_count,
    coalesce(sum(a.allocated_bytes) FILTER (coalesce(a.alloc_ts_ns <= m.middle_ns, true) AND coalesce(a.free_ts_ns > m.middle_ns, true)), 0) AS middle_bytes
FROM allocations AS a JOIN _middles AS m USING (process_id, device_index, level)
WHERE a.memory_kind <> 'static' GROUP BY ALL;

CREATE TEMP TABLE _live_faults AS
SELECT concat(l.level, 's of process ', e.process_id, ' on device ', e.device_index, ': ', e.end_bytes, ' bytes live at the end, allocated less freed is ', l.end_bytes) AS words
FROM _ends AS e JOIN _lives AS l USING (process_id, device_index, level)
WHERE e.end_bytes <> l.end_bytes OR e.end_count <> l.end_count
UNION ALL
SELECT concat(l.level, 's of process ', m.process_id, ' on device ', m.device_index, ': ', m.middle_bytes, ' bytes live at ', m.middle_ns, ', allocated less freed is ', l.middle_bytes)
FROM _middles AS m JOIN _lives AS l USING (process_id, device_index, level)
WHERE m.middle_bytes <> l.middle_bytes;

-- The caching allocator's state at the end against the allocations that nobody freed.
CREATE TEMP TABLE _state_faults AS
SELECT concat('process ', f.process_id, ' on device ', f.device_index, ': ', f.reserved_bytes, ' bytes reserved and ', f.active_bytes,
    ' in use at the end, live segments are ', s.end_bytes, ' and tensors ', coalesce(t.end_bytes, 0)) AS words
FROM (SELECT * FROM fragmentation WHERE moment = 'end') AS f
JOIN _lives AS s ON s.process_id = f.process_id AND s.device_index = f.device_index AND s.level = 'segment'
LEFT JOIN _lives AS t ON t.process_id = f.process_id AND t.device_index = f.device_index AND t.level = 'tensor'
WHERE f.reserved_bytes <> s.end_bytes OR f.active_bytes <> coalesce(t.end_bytes, 0);

CREATE TEMP TABLE _evidence_faults AS
SELECT concat('suspect ', s.suspect_id, ': ', s.retained_count, ' allocations of ', s.retained_bytes, ' bytes, its evidence are ',
    coalesce(e.rows, 0), ' of ', coalesce(e.bytes, 0)) AS words
FROM leak_suspects AS s
LEFT JOIN (SELECT suspect_id, count(*) AS rows, sum(allocated_bytes) AS bytes FROM leak_evidence GROUP BY suspect_id) AS e USING (suspect_id)
WHERE s.retained_count <> coalesce(e.rows, 0) OR s.retained_bytes <> coalesce(e.bytes, 0);

-- What a device uses is what its processes hold and what nobody does; parts of a process are its own.
CREATE TEMP TABLE _ledger_faults AS
SELECT concat('device ', device_index, ' at ', ts_ns, ': ', used_bytes, ' bytes used, the parts are ', part_bytes) AS words
FROM (
    SELECT device_index, ts_ns, max(part_bytes) FILTER (ledger_part = 'device_used') AS used_bytes,
        sum(part_bytes) FILTER (ledger_part NOT IN ('device_used', 'device_total', 'free')) AS part_bytes
    FROM memory_ledger GROUP BY device_index, ts_ns
)
WHERE used_bytes <> part_bytes;

CREATE TEMP TABLE sums_made AS
SELECT 'live_bytes_not_conserved' AS name, count(*) AS occurrence_count, min(words) AS detail FROM _live_faults HAVING count(*) > 0
UNION ALL SELECT 'allocator_state_not_conserved', count(*), min(words) FROM _state_faults HAVING count(*) > 0
UNION ALL SELECT 'evidence_does_not_add_up', count(*), min(words) FROM _evidence_faults HAVING count(*) > 0
UNION ALL SELECT 'ledger_does_not_add_up', count(*), min(words) FROM _ledger_faults HAVING count(*) > 0;
