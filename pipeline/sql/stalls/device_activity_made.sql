-- What each device did between its first operation and its last: busy and idle time, and the idle time by cause; where
-- something was not recorded, a row says so and knows no number of it.
CREATE TEMP TABLE _idle AS
SELECT device_id, sum(idle_ns)::BIGINT AS idle_ns, sum(sync_ns)::BIGINT AS sync_idle_ns, sum(launch_ns)::BIGINT AS launch_idle_ns,
    sum(host_ns)::BIGINT AS host_idle_ns, sum(unknown_ns)::BIGINT AS unknown_idle_ns, count(*) AS gap_count, max(idle_ns) AS longest_gap_ns
FROM device_gaps GROUP BY device_id;

CREATE TEMP TABLE _ran AS
SELECT d.device_id, min(o.start_ns) AS start_ns, max(o.end_ns) AS end_ns, count(*) AS op_count,
    count(DISTINCT (o.process_id, o.context_id, o.stream_id)) AS stream_count
FROM gpu_ops AS o
JOIN gpu_devices AS d ON d.clock_id = CASE WHEN o.clock_aligned THEN -1 ELSE o.file_id END
    AND d.process_id IS NOT DISTINCT FROM o.process_id AND d.device_index IS NOT DISTINCT FROM o.device_index
WHERE o.end_ns > o.start_ns AND o.op <> 'page_fault'
GROUP BY d.device_id;

CREATE TEMP TABLE _places AS
SELECT d.device_id, CASE WHEN count(DISTINCT d.process_id) = 1 THEN min(d.process_id) END AS process_id,
    min(d.device_index) AS device_index, min(d.uuid) AS uuid, count(c.process_id) > 0 AS has_calls
FROM gpu_devices AS d
LEFT JOIN (SELECT DISTINCT clock_id, process_id FROM call_files) AS c
    ON c.clock_id = d.clock_id AND c.process_id IS NOT DISTINCT FROM d.process_id
GROUP BY d.device_id;

CREATE TEMP TABLE _rows AS
SELECT p.process_id, p.device_index, p.uuid, r.start_ns, r.end_ns, r.end_ns - r.start_ns - coalesce(i.idle_ns, 0) AS busy_ns,
    coalesce(i.idle_ns, 0) AS idle_ns,
    CASE WHEN p.has_calls THEN coalesce(i.sync_idle_ns, 0) END AS sync_idle_ns,
    CASE WHEN p.has_calls THEN coalesce(i.launch_idle_ns, 0) END AS launch_idle_ns,
    CASE WHEN p.has_calls THEN coalesce(i.host_idle_ns, 0) END AS host_idle_ns,
    coalesce(i.unknown_idle_ns, 0) AS unknown_idle_ns, coalesce(i.gap_count, 0) AS gap_count, i.longest_gap_ns, r.op_count, r.stream_count,
    CASE WHEN NOT p.has_calls THEN 'no CUDA calls of the device''s process were recorded: why it was idle is not known' END AS abstained_reason
FROM _ran AS r JOIN _places AS p USING (device_id) LEFT JOIN _idle AS i USING (device_id)
UNION ALL BY NAME
SELECT process_id, 'CUDA calls of the process were recorded, but no operations of a device: how busy it was is not known' AS abstained_reason
FROM (SELECT DISTINCT process_id, clock_id FROM call_files) AS f
WHERE NOT EXISTS (FROM gpu_devices AS d WHERE d.process_id IS NOT DISTINCT FROM f.process_id AND d.clock_id = f.clock_id)
UNION ALL BY NAME
SELECT 'neither operations of a device nor CUDA calls were recorded: add a CUPTI, Nsight Systems or profiler trace' AS abstained_reason
WHERE NOT EXISTS (FROM gpu_devices) AND NOT EXISTS (FROM call_files);

CREATE TEMP TABLE device_activity_made AS
SELECT row_number() OVER (ORDER BY process_id NULLS FIRST, device_index, uuid, start_ns, abstained_reason) - 1 AS activity_id, * FROM _rows;
