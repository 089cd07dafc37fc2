-- Time in which a device ran nothing, between its first operation and its last, split by what the host did meanwhile. A gap
-- lies between merged operations:
--   kernels [0, 10) [5, 20) [30, 40)   →   gap [20, 30)
-- Of a gap, `sync_ns` is covered by calls that wait for the device (of threads that feed it), `launch_ns` by launches: from the
-- start of a call to the start of its operation. Both are unions, a wait goes before a launch; the rest is the host's
-- (`host_ns`), as far as calls were recorded at that time at all.
CREATE TEMP TABLE _busy AS
SELECT d.device_id, o.start_ns, o.end_ns
FROM gpu_ops AS o
JOIN gpu_devices AS d ON d.clock_id = CASE WHEN o.clock_aligned THEN -1 ELSE o.file_id END
    AND d.process_id IS NOT DISTINCT FROM o.process_id AND d.device_index IS NOT DISTINCT FROM o.device_index
WHERE o.end_ns > o.start_ns AND o.op <> 'page_fault';

CREATE TEMP TABLE _gaps AS
SELECT row_number() OVER () AS gap_id, device_id, busy_until_ns AS start_ns, start_ns AS end_ns
FROM (
    SELECT device_id, start_ns, max(end_ns) OVER (
        PARTITION BY device_id ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until_ns
    FROM _busy
)
WHERE start_ns > busy_until_ns;

-- Threads that feed a device; a thread that feeds none may wait for any of its process.
CREATE TEMP TABLE _feeders AS
SELECT DISTINCT d.device_id, l.clock_id, l.process_id, coalesce(l.thread_id, -1) AS lane
FROM launch_calls AS l
JOIN gpu_devices AS d ON d.clock_id = l.clock_id AND d.process_id IS NOT DISTINCT FROM l.process_id
    AND d.device_index IS NOT DISTINCT FROM l.device_index;

CREATE TEMP TABLE _waits AS
SELECT CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id, process_id, coalesce(thread_id, -1) AS lane, start_ns, end_ns
FROM sync_stalls_made
WHERE stall_kind IN ('synchronize', 'synchronous_copy', 'pageable_copy') AND end_ns > start_ns;

CREATE TEMP TABLE _spans AS
SELECT f.device_id, 'wait' AS layer, w.start_ns, w.end_ns
FROM _waits AS w JOIN _feeders AS f ON f.clock_id = w.clock_id AND f.process_id IS NOT DISTINCT FROM w.process_id AND f.lane = w.lane
UNION ALL
SELECT d.device_id, 'wait', w.start_ns, w.end_ns
FROM _waits AS w JOIN (SELECT DISTINCT device_id, clock_id, process_id FROM gpu_devices) AS d
    ON d.clock_id = w.clock_id AND d.process_id IS NOT DISTINCT FROM w.process_id
WHERE NOT EXISTS (
    FROM _feeders AS f WHERE f.clock_id = w.clock_id AND f.process_id IS NOT DISTINCT FROM w.process_id AND f.lane = w.lane
)
UNION ALL
SELECT d.device_id, 'launch', l.start_ns, greatest(l.end_ns, l.first_op_ns, l.start_ns)
FROM launch_calls AS l
JOIN gpu_devices AS d ON d.clock_id = l.clock_id AND d.process_id IS NOT DISTINCT FROM l.process_id
    AND d.device_index IS NOT DISTINCT FROM l.device_index;

CREATE TEMP TABLE _evidence AS
SELECT device_id, min(first_ns) AS first_ns, max(last_ns) AS last_ns
FROM (
    SELECT d.device_id, f.first_ns, f.last_ns
    FROM call_files AS f JOIN gpu_devices AS d ON d.clock_id = f.clock_id AND d.process_id IS NOT DISTINCT FROM f.process_id
    UNION ALL
    SELECT device_id, min(start_ns), max(end_ns) FROM _spans GROUP BY device_id
)
GROUP BY device_id;

-- Merged spans, and how much they cover before each of them: waits alone, and waits with launches.
CREATE TEMP TABLE _islands AS
SELECT device_id, layer, start_ns, end_ns, sum(is_first) OVER (
    PARTITION BY device_id, layer ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS island
FROM (
    SELECT *, CASE WHEN start_ns <= max(end_ns) OVER (
        PARTITION BY device_id, layer ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS is_first
    FROM (
        SELECT device_id, layer, start_ns, end_ns FROM _spans WHERE layer = 'wait'
        UNION ALL SELECT device_id, 'either', start_ns, end_ns FROM _spans
    )
);

CREATE TEMP TABLE _covered AS
SELECT *, coalesce(sum(end_ns - start_ns) OVER (
    PARTITION BY device_id, layer ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_ns
FROM (
    SELECT device_id, layer, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM _islands GROUP BY device_id, layer, island
);

CREATE TEMP TABLE _edges AS
SELECT gap_id, layer, device_id, step, CASE WHEN step < 0 THEN start_ns ELSE end_ns END AS ts_ns
FROM _gaps, (VALUES ('wait', -1), ('wait', 1), ('either', -1), ('either', 1)) AS sides(layer, step);

CREATE TEMP TABLE _shares AS
SELECT e.gap_id,
    sum(e.step * (c.before_ns + least(e.ts_ns, c.end_ns) - c.start_ns)) FILTER (e.layer = 'wait') AS sync_ns,
    sum(e.step * (c.before_ns + least(e.ts_ns, c.end_ns) - c.start_ns)) FILTER (e.layer = 'either') AS either_ns
FROM _edges AS e
ASOF JOIN _covered AS c ON c.device_id = e.device_id AND c.layer = e.layer AND c.start_ns <= e.ts_ns
GROUP BY e.gap_id;

CREATE TEMP TABLE device_gaps AS
SELECT *, CASE greatest(sync_ns, launch_ns, host_ns, unknown_ns)
        WHEN sync_ns THEN 'sync' WHEN launch_ns THEN 'launch' WHEN host_ns THEN 'host' ELSE 'unknown' END AS idle_cause
FROM (
    SELECT gap_id, device_id, start_ns, end_ns, end_ns - start_ns AS idle_ns, sync_ns, either_ns - sync_ns AS launch_ns,
        known_ns - either_ns AS host_ns, end_ns - start_ns - known_ns AS unknown_ns
    FROM (
        SELECT g.*, coalesce(s.sync_ns, 0)::BIGINT AS sync_ns, coalesce(s.either_ns, 0)::BIGINT AS either_ns,
            CASE WHEN v.first_ns IS NULL THEN 0
                ELSE greatest(0, least(g.end_ns, v.last_ns) - greatest(g.start_ns, v.first_ns)) END AS known_ns
        FROM _gaps AS g
        LEFT JOIN _shares AS s USING (gap_id)
        LEFT JOIN _evidence AS v ON v.device_id = g.device_id
    )
);
