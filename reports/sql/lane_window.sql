-- When a process on a device was seen at work, and when the device's counters were sampled; null where never.
WITH _active AS (
    SELECT ts_ns FROM live_bytes
    WHERE process_id IS NOT DISTINCT FROM $process_id AND device_index IS NOT DISTINCT FROM $device_index
    UNION ALL
    SELECT unnest([start_ns, end_ns]) FROM epochs WHERE process_id IS NOT DISTINCT FROM $process_id
),
_sampled AS (
    SELECT ts_ns FROM memory_ledger WHERE device_index IS NOT DISTINCT FROM $device_index
)
SELECT (SELECT min(ts_ns) FROM _active) AS active_start_ns, (SELECT max(ts_ns) FROM _active) AS active_end_ns,
       (SELECT min(ts_ns) FROM _sampled) AS sampled_start_ns, (SELECT max(ts_ns) FROM _sampled) AS sampled_end_ns
