-- Blocks that were given back and waited a millisecond or more for another stream (record_stream), a process and device: how
-- many, how long, their bytes at the highest point, and what the allocator took from the driver while they would have done.
CREATE TEMP TABLE _recorded_ends AS
SELECT process_id, device_index, max(ts_ns) AS end_ns FROM live_bytes WHERE level = 'tensor' GROUP BY process_id, device_index;

CREATE TEMP TABLE _waits AS
SELECT process_id, device_index, a.allocated_bytes, a.alloc_call_path_id, a.free_requested_ts_ns AS start_ns, a.free_ts_ns AS end_ns,
    coalesce(a.free_ts_ns, e.end_ns) - a.free_requested_ts_ns AS wait_ns
FROM allocations AS a
JOIN _recorded_ends AS e USING (process_id, device_index)
WHERE a.level = 'tensor' AND a.free_requested_ts_ns IS NOT NULL AND NOT a.is_free_inferred
    AND (a.free_ts_ns IS NULL OR a.free_ts_ns - a.free_requested_ts_ns >= 1000000);

-- After all changes of an instant, so that no peak is counted that never was.
CREATE TEMP TABLE _pending AS
SELECT process_id, device_index, ts_ns, sum(change) OVER (PARTITION BY process_id, device_index ORDER BY ts_ns) AS pending_bytes
FROM (
    SELECT process_id, device_index, ts_ns, sum(change) AS change
    FROM (
        SELECT process_id, device_index, start_ns AS ts_ns, allocated_bytes AS change FROM _waits
        UNION ALL SELECT process_id, device_index, end_ns, -allocated_bytes FROM _waits WHERE end_ns IS NOT NULL
    ) GROUP BY process_id, device_index, ts_ns
);

CREATE TEMP TABLE _highest AS
SELECT process_id, device_index, max(pending_bytes) AS peak_bytes, arg_max(ts_ns, (pending_bytes, -ts_ns)) AS peak_ns
FROM _pending GROUP BY process_id, device_index;

CREATE TEMP TABLE _in_use AS
SELECT h.process_id, h.device_index, sum(a.allocated_bytes) AS active_bytes
FROM _highest AS h
JOIN allocations AS a ON a.process_id = h.process_id AND a.device_index = h.device_index
WHERE a.level = 'tensor' AND coalesce(a.alloc_ts_ns <= h.peak_ns, true) AND coalesce(a.free_ts_ns > h.peak_ns, true)
GROUP BY h.process_id, h.device_index;

CREATE TEMP TABLE _taken AS
SELECT process_id, device_index, count(*) AS taken_count, sum(allocated_bytes) AS taken_bytes
FROM (
    SELECT s.process_id, s.device_index, s.allocated_bytes, p.pending_bytes
    FROM (SELECT * FROM allocations WHERE level = 'segment' AND alloc_ts_ns IS NOT NULL AND coalesce(pool_id, '0,0') = '0,0') AS s
    ASOF JOIN _pending AS p ON p.process_id = s.process_id AND p.device_index = s.device_index AND p.ts_ns <= s.alloc_ts_ns
)
WHERE pending_bytes >= allocated_bytes GROUP BY process_id, device_index;

CREATE TEMP TABLE pending_frees AS
SELECT process_id, device_index, h.peak_bytes::BIGINT AS peak_bytes, h.peak_ns, u.active_bytes::BIGINT AS active_bytes,
    w.wait_count, w.median_wait_ns, w.longest_wait_ns, w.waiting_count, w.waiting_bytes::BIGINT AS waiting_bytes,
    w.call_path_id, coalesce(t.taken_count, 0) AS taken_count, coalesce(t.taken_bytes, 0)::BIGINT AS taken_bytes
FROM _highest AS h
JOIN _in_use AS u USING (process_id, device_index)
JOIN (
    SELECT process_id, device_index, count(*) AS wait_count, quantile_disc(wait_ns, 0.5) AS median_wait_ns, max(wait_ns) AS longest_wait_ns,
        count(*) FILTER (end_ns IS NULL) AS waiting_count, coalesce(sum(allocated_bytes) FILTER (end_ns IS NULL), 0) AS waiting_bytes,
        arg_max(alloc_call_path_id, (allocated_bytes, -start_ns)) AS call_path_id
    FROM _waits GROUP BY process_id, device_index
) AS w USING (process_id, device_index)
LEFT JOIN _taken AS t USING (process_id, device_index);
