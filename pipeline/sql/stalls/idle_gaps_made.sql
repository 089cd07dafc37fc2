-- The longest gaps of each device: what the host did, the wait that was on when it began, and the range and request then.
CREATE TEMP TABLE _longest AS
SELECT row_number() OVER (ORDER BY g.device_id, g.start_ns) - 1 AS gap_id, g.*, p.process_id, p.device_index, p.uuid, p.clock_id
FROM (
    SELECT * FROM device_gaps WHERE idle_ns >= getvariable('idle_gap_min_ns')
    QUALIFY row_number() OVER (PARTITION BY device_id ORDER BY idle_ns DESC, start_ns) <= getvariable('max_gaps')
) AS g
JOIN (
    SELECT device_id, any_value(clock_id) AS clock_id, CASE WHEN count(DISTINCT process_id) = 1 THEN min(process_id) END AS process_id,
        min(device_index) AS device_index, min(uuid) AS uuid
    FROM gpu_devices GROUP BY device_id
) AS p USING (device_id);

CREATE TEMP TABLE _waited AS
SELECT g.gap_id, w.stall_id
FROM _longest AS g
ASOF JOIN (
    SELECT stall_id, process_id, start_ns, end_ns, CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id FROM sync_stalls_made
    WHERE stall_kind IN ('synchronize', 'synchronous_copy', 'pageable_copy')
) AS w ON w.process_id = g.process_id AND w.clock_id = g.clock_id AND w.start_ns <= g.start_ns
WHERE w.end_ns > g.start_ns AND g.sync_ns > 0;

CREATE TEMP TABLE _ranges_then AS
SELECT o.gap_id, arg_max(n.range_id, (n.start_ns, n.range_id)) AS range_id
FROM (
    SELECT g.gap_id, g.process_id, g.start_ns, f.file_id
    FROM (SELECT * FROM _longest WHERE clock_id = -1) AS g
    JOIN (SELECT DISTINCT process_id, file_id FROM range_timeline) AS f ON f.process_id = g.process_id
) AS o
ASOF JOIN range_timeline AS t ON t.process_id = o.process_id AND t.file_id = o.file_id AND t.ts_ns <= o.start_ns
JOIN range_nesting AS n ON n.range_id = t.range_id
GROUP BY o.gap_id;

CREATE TEMP TABLE _request_then AS
SELECT g.gap_id, t.request_id
FROM (SELECT * FROM _longest WHERE clock_id = -1) AS g
ASOF JOIN request_timeline AS t ON t.process_id = g.process_id AND t.ts_ns <= g.start_ns
WHERE t.request_id IS NOT NULL;

CREATE TEMP TABLE idle_gaps_made AS
SELECT g.gap_id, g.process_id, g.device_index, g.uuid, g.start_ns, g.end_ns,
    g.idle_ns, CASE WHEN g.unknown_ns < g.idle_ns THEN g.sync_ns END AS sync_idle_ns,
    CASE WHEN g.unknown_ns < g.idle_ns THEN g.launch_ns END AS launch_idle_ns,
    CASE WHEN g.unknown_ns < g.idle_ns THEN g.host_ns END AS host_idle_ns, g.unknown_ns AS unknown_idle_ns, g.idle_cause,
    w.stall_id, n.range_id, n.range_path, coalesce(n.request_id, q.request_id) AS request_id
FROM _longest AS g
LEFT JOIN _waited AS w ON w.gap_id = g.gap_id
LEFT JOIN _ranges_then AS r ON r.gap_id = g.gap_id
LEFT JOIN range_nesting AS n ON n.range_id = r.range_id
LEFT JOIN _request_then AS q ON q.gap_id = g.gap_id;
