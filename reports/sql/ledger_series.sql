-- Ledger parts of a device over all processes, at the fullest sample of each slice of time: parts of one sample add up.
-- The last sample before the window is what holds at its start.
WITH _before AS (
    SELECT max(ts_ns) AS ts_ns FROM memory_ledger
    WHERE device_index IS NOT DISTINCT FROM $device_index AND ts_ns <= $start_ns
),
_mine AS (
    SELECT ts_ns, ledger_part, part_bytes FROM memory_ledger
    WHERE device_index IS NOT DISTINCT FROM $device_index AND ledger_part IN (SELECT unnest($parts))
      AND ts_ns BETWEEN coalesce((SELECT ts_ns FROM _before), $start_ns) AND $end_ns
),
_used AS (
    SELECT ts_ns, coalesce(sum(part_bytes), 0) AS bytes FROM _mine GROUP BY ts_ns
),
_fullest AS (
    SELECT arg_max(ts_ns, (bytes, ts_ns)) AS ts_ns FROM _used GROUP BY (ts_ns - $start_ns) // $width_ns
)
SELECT ts_ns, ledger_part, sum(part_bytes)::BIGINT AS bytes
FROM _mine JOIN _fullest USING (ts_ns)
GROUP BY ALL ORDER BY ts_ns, ledger_part
