-- Live bytes of each level after every change, thinned: in each of `max_points` equal slices of time the highest and the
-- last point are kept, so peaks and the end are exact. Allocations from before the window are live from its start.
CREATE TEMP TABLE _spans AS
SELECT process_id, device_index, level, min(coalesce(alloc_ts_ns, free_ts_ns)) AS first_ns,
    max(greatest(coalesce(alloc_ts_ns, free_ts_ns), coalesce(free_ts_ns, alloc_ts_ns))) AS last_ns
FROM allocations WHERE memory_kind <> 'static' AND process_id IS NOT NULL AND device_index IS NOT NULL GROUP BY ALL;

CREATE TEMP TABLE _deltas AS
SELECT a.process_id, a.device_index, a.level, coalesce(a.alloc_ts_ns, s.first_ns) AS ts_ns, coalesce(a.allocated_bytes, 0) AS bytes, 1 AS step, 0 AS pending
FROM allocations AS a JOIN _spans AS s USING (process_id, device_index, level)
WHERE a.memory_kind <> 'static' AND s.first_ns IS NOT NULL
UNION ALL
SELECT process_id, device_index, level, free_ts_ns, -coalesce(allocated_bytes, 0), -1, 0 FROM allocations
WHERE memory_kind <> 'static' AND free_ts_ns IS NOT NULL
UNION ALL
SELECT process_id, device_index, level, free_requested_ts_ns, 0, 0, coalesce(allocated_bytes, 0) FROM allocations
WHERE memory_kind <> 'static' AND free_requested_ts_ns IS NOT NULL AND coalesce(free_ts_ns > free_requested_ts_ns, true)
UNION ALL
SELECT process_id, device_index, level, free_ts_ns, 0, 0, -coalesce(allocated_bytes, 0) FROM allocations
WHERE memory_kind <> 'static' AND free_ts_ns > free_requested_ts_ns;

-- At one instant what ends comes first, so that no peak is counted that never was.
CREATE TEMP TABLE _running AS
SELECT process_id, device_index, level, ts_ns, floor((ts_ns - first_ns)::DOUBLE / (last_ns - first_ns + 1) * getvariable('max_points')) AS slice,
    bytes, step, pending, sum(bytes) OVER moments AS live_bytes, sum(step) OVER moments AS live_count
FROM _deltas JOIN _spans USING (process_id, device_index, level)
WHERE ts_ns IS NOT NULL
WINDOW moments AS (PARTITION BY process_id, device_index, level ORDER BY ts_ns, step ROWS UNBOUNDED PRECEDING);

CREATE TEMP TABLE _slices AS
SELECT process_id, device_index, level, slice, last_ns, highest,
    sum(bytes) OVER slices AS end_bytes, sum(step) OVER slices AS end_count, sum(pending) OVER slices AS end_pending
FROM (
    SELECT process_id, device_index, level, slice, max(ts_ns) AS last_ns, sum(bytes) AS bytes, sum(step) AS step, sum(pending) AS pending,
        arg_max({'ts_ns': ts_ns, 'live': live_bytes, 'count': live_count}, (live_bytes, -ts_ns, step)) AS highest
    FROM _running GROUP BY process_id, device_index, level, slice
)
WINDOW slices AS (PARTITION BY process_id, device_index, level ORDER BY slice);

CREATE TEMP TABLE live_bytes_made AS
SELECT process_id, device_index, level, last_ns AS ts_ns, end_bytes::BIGINT AS live_bytes, end_count::BIGINT AS live_count,
    end_pending::BIGINT AS pending_free_bytes
FROM _slices
UNION ALL
SELECT process_id, device_index, level, highest.ts_ns, highest.live::BIGINT, highest.count::BIGINT, NULL
FROM _slices WHERE highest.ts_ns < last_ns;
