-- Private pools of the caching allocator, a process and device: what their segments hold and when they were taken. Pools
-- (n, 0) are made by a capture itself, (0, n) by a handle or a torch.cuda.MemPool; (0, 0) is the pool that all else uses.
-- The later half is that of the epochs where something repeats, else that of the recorded window.
CREATE TEMP TABLE _halves AS
SELECT process_id, w.first_ns, w.last_ns, e.epoch_count,
    CASE WHEN e.epoch_count >= 4 THEN e.first_ns + (e.last_ns - e.first_ns) // 2 ELSE w.first_ns + (w.last_ns - w.first_ns) // 2 END AS half_ns
FROM judged_windows AS w
LEFT JOIN (
    SELECT process_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns, count(*) AS epoch_count FROM epochs GROUP BY process_id
) AS e USING (process_id);

CREATE TEMP TABLE _private_segments AS
SELECT process_id, a.device_index, a.pool_id, a.address AS low, a.address + a.allocated_bytes AS high, a.allocated_bytes,
    a.alloc_ts_ns, h.epoch_count, coalesce(a.alloc_ts_ns >= h.half_ns, false) AS is_late
FROM allocations AS a
LEFT JOIN _halves AS h USING (process_id)
WHERE a.level = 'segment' AND a.free_ts_ns IS NULL AND a.pool_id <> '0,0';

CREATE TEMP TABLE _private_live AS
SELECT process_id, device_index, sum(allocated_bytes) AS live_bytes
FROM allocations WHERE level = 'tensor' AND free_ts_ns IS NULL AND pool_id <> '0,0' GROUP BY process_id, device_index;

CREATE TEMP TABLE _pool_ages AS
SELECT process_id, device_index, pool_id, sum(allocated_bytes) AS reserved_bytes, min(alloc_ts_ns) AS first_ns, bool_and(is_late) AS is_late
FROM _private_segments GROUP BY process_id, device_index, pool_id;

-- Graphs that were captured or instantiated: the runtime's calls, else the driver's.
CREATE TEMP TABLE _graph_calls AS
SELECT process_id, coalesce(nullif(count(*) FILTER (api = 'runtime'), 0), count(*)) AS graph_count
FROM api_calls
WHERE api IN ('runtime', 'driver') AND regexp_matches(name, '^cu(da)?GraphInstantiate') AND coalesce(return_code, 0) = 0
GROUP BY process_id;

CREATE TEMP TABLE private_pools AS
SELECT process_id, device_index, p.pool_count, p.late_pool_count, p.capture_pool_count, s.segment_count,
    s.reserved_bytes::BIGINT AS reserved_bytes, s.late_bytes::BIGINT AS late_bytes, s.step_count, s.untimed_bytes::BIGINT AS untimed_bytes,
    coalesce(l.live_bytes, 0)::BIGINT AS live_bytes, coalesce(s.epoch_count, 0) AS epoch_count, g.graph_count
FROM (
    SELECT process_id, device_index, count(*) AS segment_count, sum(allocated_bytes) AS reserved_bytes,
        coalesce(sum(allocated_bytes) FILTER (is_late), 0) AS late_bytes, any_value(epoch_count) AS epoch_count,
        coalesce(sum(allocated_bytes) FILTER (alloc_ts_ns IS NULL), 0) AS untimed_bytes,
        count(DISTINCT (pool_id, alloc_ts_ns // 1000000)) FILTER (alloc_ts_ns IS NOT NULL) AS step_count
    FROM _private_segments GROUP BY process_id, device_index
) AS s
JOIN (
    SELECT process_id, device_index, count(*) AS pool_count, count(*) FILTER (is_late) AS late_pool_count,
        count(*) FILTER (NOT starts_with(pool_id, '0,')) AS capture_pool_count
    FROM _pool_ages GROUP BY process_id, device_index
) AS p USING (process_id, device_index)
LEFT JOIN _private_live AS l USING (process_id, device_index)
LEFT JOIN _graph_calls AS g USING (process_id);
