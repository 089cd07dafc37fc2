-- Processes that hold device memory, level over the later half of their samples, while nothing of theirs happens: no
-- allocator or API record in that half, and no snapshot. Only when another process's activity was recorded then: else
-- nobody's was looked for.
CREATE TEMP TABLE _held AS
SELECT process_id, device_index, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, count(*) AS sample_count,
    quantile_disc(ts_ns, 0.5) AS half_ns, arg_max(bytes, ts_ns) AS last_bytes
FROM device_samples
WHERE metric = 'process_memory_used_bytes' AND process_id IS NOT NULL
GROUP BY process_id, device_index;

CREATE TEMP TABLE _level AS
SELECT h.*
FROM _held AS h JOIN device_samples AS m
    ON m.process_id = h.process_id AND m.device_index = h.device_index AND m.ts_ns >= h.half_ns
WHERE m.metric = 'process_memory_used_bytes'
GROUP BY ALL HAVING count(DISTINCT m.bytes) = 1;

CREATE TEMP TABLE _activity AS
SELECT process_id, max(ts_ns) AS last_ns FROM (
    SELECT process_id, ts_ns FROM memory_events WHERE clock_aligned AND ts_ns IS NOT NULL
    UNION ALL SELECT process_id, start_ns FROM api_calls WHERE clock_aligned
)
WHERE process_id IS NOT NULL GROUP BY process_id;

CREATE TEMP TABLE idle_contexts AS
SELECT l.process_id, l.device_index, l.sample_count, l.first_ns, l.last_ns, l.last_bytes
FROM _level AS l
LEFT JOIN _activity AS a USING (process_id)
WHERE l.last_bytes >= getvariable('context_min_bytes') AND l.sample_count >= 10
    AND coalesce(a.last_ns < l.half_ns, true)
    AND l.process_id NOT IN (SELECT process_id FROM allocations WHERE level IN ('tensor', 'segment') AND process_id IS NOT NULL)
    AND EXISTS (SELECT 1 FROM _activity AS o WHERE o.process_id <> l.process_id AND o.last_ns >= l.half_ns);
