-- Allocations live at the peak of their process and device: the moment after which most bytes are live, at the finest
-- level that was recorded there. Frees and allocations of one moment both count as done, so that what is live sums to the peak.
WITH _lives AS (
    SELECT process_id, device_index, list_position(['tensor', 'segment', 'driver', 'host'], level) AS place,
           allocated_bytes AS bytes, coalesce(alloc_ts_ns, -9223372036854775807) AS alloc_ns, free_ts_ns AS free_ns
    FROM allocations WHERE allocated_bytes IS NOT NULL
),
_deltas AS (
    SELECT process_id, device_index, place, alloc_ns AS ts_ns, bytes FROM _lives
    UNION ALL
    SELECT process_id, device_index, place, greatest(free_ns, alloc_ns), -bytes FROM _lives WHERE free_ns IS NOT NULL
),
-- An empty OVER goes along the sorted rows, frees of one moment first. What the sum brings along from the group before is
-- the same for a whole group, and does not move its highest point.
_running AS (
    SELECT *, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) AS live
    FROM (SELECT * FROM _deltas ORDER BY process_id, device_index, place, ts_ns, bytes)
),
_highest AS (
    SELECT process_id, device_index, place, arg_max(ts_ns, (live, -ts_ns)) AS ts_ns FROM _running
    GROUP BY process_id, device_index, place
),
_peaks AS (
    SELECT process_id, device_index, arg_min(ts_ns, place) AS ts_ns FROM _highest GROUP BY ALL
)
SELECT a.level, a.process_id, a.device_index, a.alloc_call_path_id AS call_path_id, a.allocated_bytes AS weight
FROM allocations a JOIN _peaks p
  ON p.process_id IS NOT DISTINCT FROM a.process_id AND p.device_index IS NOT DISTINCT FROM a.device_index
WHERE coalesce(a.alloc_ts_ns, p.ts_ns) <= p.ts_ns AND (a.free_ts_ns IS NULL OR a.free_ts_ns > p.ts_ns)
