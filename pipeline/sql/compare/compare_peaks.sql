-- Peak of every process, device and level, and the moment at which the flame graphs look: the peak of the finest level.
CREATE TEMP TABLE _highest AS
SELECT process_id, device_index, level, max(live_bytes) AS peak_bytes, arg_max(ts_ns, (live_bytes, -ts_ns)) AS ts_ns
FROM compare_levels GROUP BY ALL;

CREATE TEMP TABLE compare_peaks AS
SELECT process_id, device_index, level, peak_bytes,
    first_value(ts_ns) OVER (
        PARTITION BY process_id, device_index ORDER BY list_position(['tensor', 'segment', 'driver', 'host'], level)
    ) AS seen_ts_ns
FROM _highest;
