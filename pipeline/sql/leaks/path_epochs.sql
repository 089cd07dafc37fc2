-- How live bytes of every call path change, an epoch: allocated in it, freed in it, and freed after at least 2 epochs of
-- life (evicted). Sizes and range paths with survivors stand apart, the others together (`size_key`, `range_key` null).
CREATE TEMP TABLE path_epochs AS
SELECT process_id, device_index, level, memory_kind, path_key, size_key, range_key, epoch_index,
    sum(allocated_count)::BIGINT AS allocated_count, sum(allocated_bytes)::BIGINT AS allocated_bytes,
    sum(freed_count)::BIGINT AS freed_count, sum(freed_bytes)::BIGINT AS freed_bytes,
    sum(evicted_count)::BIGINT AS evicted_count, max(evicted_age) AS evicted_age, sum(lasting_count)::BIGINT AS lasting_count
FROM (
    SELECT process_id, device_index, level, memory_kind, path_key, kept_size AS size_key, range_key, time_epoch_index AS epoch_index,
        1 AS allocated_count, allocated_bytes, 0 AS freed_count, 0 AS freed_bytes, 0 AS evicted_count, CAST(NULL AS BIGINT) AS evicted_age,
        CASE WHEN free_epoch_index IS NULL OR free_epoch_index - time_epoch_index >= 2 THEN 1 ELSE 0 END AS lasting_count
    FROM epoch_lives WHERE time_epoch_index IS NOT NULL
    UNION ALL
    SELECT process_id, device_index, level, memory_kind, path_key, kept_size, range_key, free_epoch_index, 0, 0, 1, allocated_bytes,
        CASE WHEN free_epoch_index - time_epoch_index >= 2 THEN 1 ELSE 0 END,
        CASE WHEN free_epoch_index - time_epoch_index >= 2 THEN free_epoch_index - time_epoch_index END, 0
    FROM epoch_lives WHERE free_epoch_index IS NOT NULL AND time_epoch_index IS NOT NULL
)
GROUP BY process_id, device_index, level, memory_kind, path_key, size_key, range_key, epoch_index;
