-- Parts of a device's ledger by process, at two samples.
SELECT ledger_part, process_id,
       (sum(part_bytes) FILTER (WHERE ts_ns = $peak_ns))::BIGINT AS peak,
       (sum(part_bytes) FILTER (WHERE ts_ns = $last_ns))::BIGINT AS last
FROM memory_ledger
WHERE device_index IS NOT DISTINCT FROM $device_index AND ts_ns IN ($peak_ns, $last_ns)
GROUP BY ALL ORDER BY process_id NULLS LAST, ledger_part
