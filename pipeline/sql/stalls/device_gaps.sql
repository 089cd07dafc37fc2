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

CREATE TEMP TABLE _recorded AS
SELECT d.device_id, f.first_ns, f.last_ns
FROM call_files AS f JOIN gpu_devices AS d ON d.clock_id = f.clock_id AND d.process_id IS NOT DISTINCT FROM f.process_id
UNION ALL
SELECT device_id, min(start_ns), max(end_ns) FROM _spans GROUP BY device_id;

-- How many operations begin on the devices before each and up to it.
CREATE TEMP TABLE _begins AS
SELECT device_id, sum(count(*)) OVER (ORDER BY device_id) - count(*) AS first_count, sum(count(*)) OVER (ORDER BY device_id) AS last_count
FROM _busy GROUP BY device_id;

-- Steps of what is on: operations, waits, launches, and whether calls are recorded.
CREATE TEMP TABLE _steps AS
SELECT device_id, start_ns AS ts_ns, 1::TINYINT AS busy, 0::TINYINT AS waits, 0::TINYINT AS launches, 0::TINYINT AS known FROM _busy
UNION ALL SELECT device_id, end_ns, -1, 0, 0, 0 FROM _busy
UNION ALL SELECT device_id, start_ns, 0, CASE layer WHEN 'wait' THEN 1 ELSE 0 END, CASE layer WHEN 'launch' THEN 1 ELSE 0 END, 1 FROM _spans
UNION ALL SELECT device_id, end_ns, 0, CASE layer WHEN 'wait' THEN -1 ELSE 0 END, CASE layer WHEN 'launch' THEN -1 ELSE 0 END, -1 FROM _spans
UNION ALL SELECT device_id, min(first_ns), 0, 0, 0, 1 FROM _recorded GROUP BY device_id
UNION ALL SELECT device_id, max(last_ns), 0, 0, 0, -1 FROM _recorded GROUP BY device_id;

-- From one step to the next. No operation begins inside a gap: how many have begun says which gap it is. Empty OVERs go along
-- the sorted rows: every sum but `begun` is back at 0 where a device ends.
CREATE TEMP TABLE _stretches AS
SELECT s.device_id, s.begun, s.ts_ns, s.next_ns,
    CASE WHEN s.waits > 0 THEN 'sync' WHEN s.launches > 0 THEN 'launch' WHEN s.known > 0 THEN 'host' ELSE 'unknown' END AS cause
FROM (
    SELECT device_id, ts_ns, lead(ts_ns) OVER () AS next_ns,
        sum(busy) OVER (ROWS UNBOUNDED PRECEDING) AS busy, sum(waits) OVER (ROWS UNBOUNDED PRECEDING) AS waits,
        sum(launches) OVER (ROWS UNBOUNDED PRECEDING) AS launches, sum(known) OVER (ROWS UNBOUNDED PRECEDING) AS known,
        sum(CASE WHEN busy > 0 THEN 1 ELSE 0 END) OVER (ROWS UNBOUNDED PRECEDING) AS begun
    FROM (SELECT * FROM _steps ORDER BY device_id, ts_ns)
) AS s
JOIN _begins AS b ON b.device_id = s.device_id
WHERE s.busy = 0 AND s.next_ns > s.ts_ns AND s.begun > b.first_count AND s.begun < b.last_count;

CREATE TEMP TABLE device_gaps AS
SELECT *, CASE greatest(sync_ns, launch_ns, host_ns, unknown_ns)
        WHEN sync_ns THEN 'sync' WHEN launch_ns THEN 'launch' WHEN host_ns THEN 'host' ELSE 'unknown' END AS idle_cause
FROM (
    SELECT s.device_id, min(s.ts_ns) AS start_ns, max(s.next_ns) AS end_ns, sum(s.next_ns - s.ts_ns)::BIGINT AS idle_ns,
        coalesce(sum(s.next_ns - s.ts_ns) FILTER (s.cause = 'sync'), 0)::BIGINT AS sync_ns,
        coalesce(sum(s.next_ns - s.ts_ns) FILTER (s.cause = 'launch'), 0)::BIGINT AS launch_ns,
        coalesce(sum(s.next_ns - s.ts_ns) FILTER (s.cause = 'host'), 0)::BIGINT AS host_ns,
        coalesce(sum(s.next_ns - s.ts_ns) FILTER (s.cause = 'unknown'), 0)::BIGINT AS unknown_ns
    FROM _stretches AS s
    GROUP BY s.device_id, s.begun
);
