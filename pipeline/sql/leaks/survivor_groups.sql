-- Survivors by call path, requested size and range path, an epoch: the rows that verdicts are made from.
CREATE TEMP TABLE survivor_groups AS
SELECT process_id, device_index, level, memory_kind, path_key, size_key, range_key, epoch_index,
    count(*) AS retained_count, sum(allocated_bytes)::BIGINT AS retained_bytes, sum(requested_bytes)::BIGINT AS retained_requested_bytes
FROM epoch_lives WHERE is_live
GROUP BY process_id, device_index, level, memory_kind, path_key, size_key, range_key, epoch_index;
