-- Live bytes by level: the highest value of each slice of time, and the last value of all.
WITH _mine AS (
    SELECT level, ts_ns, live_bytes FROM live_bytes
    WHERE process_id IS NOT DISTINCT FROM $process_id AND device_index IS NOT DISTINCT FROM $device_index
)
SELECT level, min(ts_ns) AS ts_ns, max(live_bytes) AS bytes
FROM _mine GROUP BY level, (ts_ns - $start_ns) // $width_ns
UNION ALL
SELECT level, max(ts_ns), arg_max(live_bytes, ts_ns)
FROM _mine GROUP BY level
ORDER BY level, ts_ns, bytes DESC
