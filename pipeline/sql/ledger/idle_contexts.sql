-- Processes that hold device memory, level from their second sample on, and have no allocator activity in any file. Only
-- when some other process's activity was recorded: else nobody's was looked for.
CREATE TEMP TABLE idle_contexts AS
SELECT process_id, device_index, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, count(*) AS sample_count,
    max(value)::BIGINT AS held_bytes, arg_max(value, ts_ns)::BIGINT AS last_bytes,
    quantile_disc(value, 0.5)::BIGINT AS usual_bytes,
    count(DISTINCT value) FILTER (place * 2 > total) AS late_levels
FROM (
    SELECT *, row_number() OVER (PARTITION BY process_id, device_index ORDER BY ts_ns) AS place,
        count(*) OVER (PARTITION BY process_id, device_index) AS total
    FROM metrics
    WHERE source = 'nvml' AND metric = 'process_memory_used_bytes' AND process_id IS NOT NULL AND ts_ns IS NOT NULL
)
WHERE process_id NOT IN (SELECT process_id FROM allocations WHERE process_id IS NOT NULL)
    AND process_id NOT IN (SELECT process_id FROM api_calls WHERE process_id IS NOT NULL)
    AND EXISTS (SELECT 1 FROM allocations)
GROUP BY process_id, device_index
HAVING late_levels = 1 AND last_bytes >= getvariable('context_min_bytes') AND sample_count >= 10;
