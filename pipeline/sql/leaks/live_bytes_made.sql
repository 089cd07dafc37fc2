-- Live bytes of each level after every change, thinned: in each of `max_points` equal slices of time the highest and the
-- last point are kept, so peaks and the end are exact. Allocations from before the window are live from its start.
CREATE TEMP TABLE _spans AS
SELECT process_id, device_index, level, min(coalesce(alloc_ts_ns, free_ts_ns)) AS first_ns,
    max(greatest(coalesce(alloc_ts_ns, free_ts_ns), coalesce(free_ts_ns, alloc_ts_ns))) AS last_ns
FROM allocations WHERE memory_kind <> 'static' GROUP BY ALL;

CREATE TEMP TABLE _deltas AS
SELECT a.process_id, a.device_index, a.level, coalesce(a.alloc_ts_ns, s.first_ns) AS ts_ns, a.allocated_bytes AS bytes, 1 AS step, 0 AS pending
FROM allocations AS a JOIN _spans AS s ON s.process_id IS NOT DISTINCT FROM a.process_id
    AND s.device_index IS NOT DISTINCT FROM a.device_index AND s.level = a.level
WHERE a.memory_kind <> 'static' AND s.first_ns IS NOT NULL
UNION ALL
SELECT process_id, device_index, level, free_ts_ns, -allocated_bytes, -1, 0 FROM allocations
WHERE memory_kind <> 'static' AND free_ts_ns IS NOT NULL
UNION ALL
SELECT process_id, device_index, level, free_requested_ts_ns, 0, 0, allocated_bytes FROM allocations
WHERE memory_kind <> 'static' AND free_requested_ts_ns IS NOT NULL AND coalesce(free_ts_ns > free_requested_ts_ns, true)
UNION ALL
SELECT process_id, device_index, level, free_ts_ns, 0, 0, -allocated_bytes FROM allocations
WHERE memory_kind <> 'static' AND free_ts_ns > free_requested_ts_ns;

CREATE TEMP TABLE _running AS
SELECT process_id, device_index, level, ts_ns,
    sum(sum(bytes)) OVER moments AS live_bytes, sum(sum(step)) OVER moments AS live_count,
    sum(sum(pending)) OVER moments AS pending_free_bytes
FROM _deltas WHERE ts_ns IS NOT NULL
GROUP BY process_id, device_index, level, ts_ns
WINDOW moments AS (PARTITION BY process_id, device_index, level ORDER BY ts_ns);

CREATE TEMP TABLE live_bytes_made AS
SELECT process_id, device_index, level, ts_ns, live_bytes::BIGINT AS live_bytes, live_count::BIGINT AS live_count,
    pending_free_bytes::BIGINT AS pending_free_bytes
FROM (
    SELECT r.*, (r.ts_ns - s.first_ns)::HUGEINT * getvariable('max_points') // (s.last_ns - s.first_ns + 1) AS slice
    FROM _running AS r JOIN _spans AS s ON s.process_id IS NOT DISTINCT FROM r.process_id
        AND s.device_index IS NOT DISTINCT FROM r.device_index AND s.level = r.level
)
QUALIFY row_number() OVER (PARTITION BY process_id, device_index, level, slice ORDER BY live_bytes DESC, ts_ns) = 1
    OR row_number() OVER (PARTITION BY process_id, device_index, level, slice ORDER BY ts_ns DESC) = 1;
