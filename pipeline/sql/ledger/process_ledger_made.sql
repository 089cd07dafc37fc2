-- Each process on each device over its samples: what it held first, last and at most, and of what that is made at the end.
CREATE TEMP TABLE _process_ranks AS
SELECT process_id, any_value(rank) AS rank FROM (
    SELECT process_id, rank FROM processes WHERE rank IS NOT NULL
    UNION SELECT process_id, rank FROM capture_files WHERE rank IS NOT NULL
)
WHERE process_id IS NOT NULL GROUP BY process_id HAVING count(DISTINCT rank) = 1;

CREATE TEMP TABLE _process_spans AS
SELECT process_id, device_index, count(*) AS sample_count, min(ts_ns) AS start_ns, max(ts_ns) AS end_ns, arg_min(bytes, ts_ns) AS first_bytes,
    arg_max(bytes, ts_ns) AS last_bytes, max(bytes) AS highest_bytes
FROM device_samples WHERE metric = 'process_memory_used_bytes' AND process_id IS NOT NULL
GROUP BY process_id, device_index;

CREATE TEMP TABLE _last_parts AS
SELECT process_id, device_index,
    arg_max(part_bytes, ts_ns) FILTER (ledger_part = 'torch_allocated') AS torch_allocated_bytes,
    arg_max(part_bytes, ts_ns) FILTER (ledger_part = 'torch_cached') AS torch_cached_bytes,
    arg_max(part_bytes, ts_ns) FILTER (ledger_part = 'driver_outside') AS outside_bytes,
    arg_max(part_bytes, ts_ns) FILTER (ledger_part = 'context_and_modules') AS context_bytes,
    arg_max(part_bytes, ts_ns) FILTER (ledger_part = 'unattributed') AS unattributed_bytes,
    count(DISTINCT ts_ns) FILTER (is_impossible) AS impossible_count
FROM memory_ledger_made WHERE process_id IS NOT NULL GROUP BY process_id, device_index;

CREATE TEMP TABLE process_ledger_made AS
SELECT s.*, r.rank, p.torch_allocated_bytes, p.torch_cached_bytes, p.outside_bytes, p.context_bytes, p.unattributed_bytes,
    coalesce(p.impossible_count, 0) AS impossible_count
FROM _process_spans AS s
LEFT JOIN _last_parts AS p ON p.process_id = s.process_id AND p.device_index = s.device_index
LEFT JOIN _process_ranks AS r ON r.process_id = s.process_id;
