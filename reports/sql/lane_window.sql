-- First and last moment that anything is known of a process on a device; 0 and 0 when nothing is.
WITH _seen AS (
    SELECT ts_ns FROM live_bytes
    WHERE process_id IS NOT DISTINCT FROM $process_id AND device_index IS NOT DISTINCT FROM $device_index
    UNION ALL
    SELECT ts_ns FROM memory_ledger WHERE device_index IS NOT DISTINCT FROM $device_index
    UNION ALL
    SELECT unnest([start_ns, end_ns]) FROM epochs WHERE process_id IS NOT DISTINCT FROM $process_id
)
SELECT coalesce(min(ts_ns), 0) AS start_ns, coalesce(max(ts_ns), 0) AS end_ns
FROM _seen
