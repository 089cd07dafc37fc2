-- What growing suspects keep and what lives at the end, by call path and the unit it was allocated in. `unit` is null for
-- what was there before the first epoch, or is kept once or by a cache with a limit: that does not vary by epoch.
CREATE TEMP TABLE _judged AS
SELECT e.allocation_id, s.verdict = 'growing' AS is_leak, u.unit
FROM leak_evidence AS e JOIN leak_suspects AS s USING (suspect_id)
LEFT JOIN compare_units AS u ON s.verdict IN ('growing', 'inconclusive')
    AND u.process_id IS NOT DISTINCT FROM s.process_id AND u.epoch_index = e.epoch_index;

CREATE TEMP TABLE compare_kept AS
SELECT a.level, a.memory_kind, r.rank, n.path_key, j.unit, j.is_leak, a.free_ts_ns IS NULL AS is_live,
    sum(a.allocated_bytes)::BIGINT AS bytes, count(*) AS allocation_count
FROM _judged AS j
JOIN allocations AS a USING (allocation_id)
LEFT JOIN compare_path_names AS n ON n.call_path_id = a.alloc_call_path_id
LEFT JOIN compare_ranks AS r ON r.process_id = a.process_id
GROUP BY ALL;
