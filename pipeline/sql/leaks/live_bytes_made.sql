-- Live bytes of each level after every change, thinned: in each of `max_points` equal slices of time the highest and the
-- last point are kept, so peaks and the end are exact. Allocations from before the window are live from its start.
CREATE TEMP TABLE _spans AS
SELECT row_number() OVER () AS lane, process_id, device_index, level, min(coalesce(alloc_ts_ns, free_ts_ns)) AS first_ns,
    max(greatest(coalesce(alloc_ts_ns, free_ts_ns), coalesce(free_ts_ns, alloc_ts_ns))) AS last_ns
FROM allocations WHERE memory_kind <> 'static' AND process_id IS NOT NULL AND device_index IS NOT NULL
GROUP BY process_id, device_index, level;

CREATE TEMP TABLE _lived AS
SELECT s.lane, coalesce(a.alloc_ts_ns, s.first_ns) AS alloc_ts_ns, a.free_requested_ts_ns, a.free_ts_ns,
    coalesce(a.allocated_bytes, 0) AS bytes
FROM allocations AS a JOIN _spans AS s USING (process_id, device_index, level)
WHERE a.memory_kind <> 'static';

-- At one instant what ends comes first, so that no peak is counted that never was. An empty OVER goes along the sorted rows:
-- the sum runs on from slice to slice and from lane to lane, and what came before a lane is taken off again.
CREATE TEMP TABLE _slices AS
SELECT lane, slice, max(ts_ns) AS last_ns, sum(bytes) AS bytes, sum(step) AS step, sum(pending) AS pending,
    arg_max({'ts_ns': ts_ns, 'live': live_bytes, 'count': live_count}, (live_bytes, -ts_ns, step)) AS highest
FROM (
    SELECT *, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) AS live_bytes, sum(step) OVER (ROWS UNBOUNDED PRECEDING) AS live_count
    FROM (
        SELECT lane, ts_ns, bytes, step::TINYINT AS step, pending,
            floor((ts_ns - first_ns)::DOUBLE / (last_ns - first_ns + 1) * getvariable('max_points'))::INTEGER AS slice
        FROM (
            SELECT lane, alloc_ts_ns AS ts_ns, bytes, 1 AS step, 0 AS pending FROM _lived
            UNION ALL SELECT lane, free_ts_ns, -bytes, -1, 0 FROM _lived
            UNION ALL SELECT lane, free_requested_ts_ns, 0, 0, bytes FROM _lived WHERE coalesce(free_ts_ns > free_requested_ts_ns, true)
            UNION ALL SELECT lane, free_ts_ns, 0, 0, -bytes FROM _lived WHERE free_ts_ns > free_requested_ts_ns
        )
        JOIN _spans USING (lane)
        WHERE ts_ns IS NOT NULL
        ORDER BY lane, ts_ns, step
    )
)
GROUP BY lane, slice;

CREATE TEMP TABLE _lanes AS
SELECT lane, sum(sum(bytes)) OVER lanes - sum(bytes) AS bytes_before, sum(sum(step)) OVER lanes - sum(step) AS count_before
FROM _slices GROUP BY lane WINDOW lanes AS (ORDER BY lane);

CREATE TEMP TABLE _points AS
SELECT lane, last_ns, sum(bytes) OVER slices AS end_bytes, sum(step) OVER slices AS end_count, sum(pending) OVER slices AS end_pending,
    highest.ts_ns AS highest_ns, highest.live - bytes_before AS highest_bytes, highest.count - count_before AS highest_count
FROM _slices JOIN _lanes USING (lane)
WINDOW slices AS (PARTITION BY lane ORDER BY slice);

CREATE TEMP TABLE live_bytes_made AS
SELECT process_id, device_index, level, ts_ns, live_bytes::BIGINT AS live_bytes, live_count::BIGINT AS live_count,
    pending_free_bytes::BIGINT AS pending_free_bytes
FROM (
    SELECT lane, last_ns AS ts_ns, end_bytes AS live_bytes, end_count AS live_count, end_pending AS pending_free_bytes FROM _points
    UNION ALL
    SELECT lane, highest_ns, highest_bytes, highest_count, NULL FROM _points WHERE highest_ns < last_ns
)
JOIN _spans USING (lane);
