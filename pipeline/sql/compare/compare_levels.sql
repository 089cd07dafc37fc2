-- What is live after each moment, a process, device and level; allocations and frees of one moment both count as done.
CREATE TEMP TABLE _deltas AS
SELECT process_id, device_index, level, coalesce(alloc_ts_ns, -9223372036854775807) AS ts_ns, allocated_bytes AS bytes
FROM allocations WHERE allocated_bytes > 0
UNION ALL
SELECT process_id, device_index, level, greatest(free_ts_ns, coalesce(alloc_ts_ns, free_ts_ns)), -allocated_bytes
FROM allocations WHERE allocated_bytes > 0 AND free_ts_ns IS NOT NULL;

CREATE TEMP TABLE _moments AS
SELECT process_id, device_index, level, ts_ns, sum(bytes)::HUGEINT AS bytes FROM _deltas GROUP BY ALL;

CREATE TEMP TABLE compare_levels AS
SELECT process_id, device_index, level, ts_ns,
    (sum(bytes) OVER (PARTITION BY process_id, device_index, level ORDER BY ts_ns))::BIGINT AS live_bytes
FROM _moments;
