-- All allocations, freed ones too, of the call paths that have survivors.
CREATE TEMP TABLE _kept_paths AS
SELECT DISTINCT process_id, device_index, level, memory_kind, path_key
FROM judged_allocations WHERE free_epoch_index IS NULL;

CREATE TEMP TABLE kept_paths AS
SELECT j.*,
    CASE WHEN bool_or(j.free_epoch_index IS NULL) OVER (
        PARTITION BY j.process_id, j.device_index, j.level, j.memory_kind, j.path_key, j.size_key
    ) THEN j.size_key END AS kept_size
FROM judged_allocations AS j
JOIN _kept_paths AS k ON k.process_id IS NOT DISTINCT FROM j.process_id AND k.device_index IS NOT DISTINCT FROM j.device_index
    AND k.level = j.level AND k.memory_kind = j.memory_kind AND k.path_key = j.path_key;
