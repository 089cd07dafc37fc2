-- All allocations, freed ones too, of the call paths that have survivors.
CREATE TEMP TABLE _kept_paths AS
SELECT DISTINCT process_id, device_index, level, memory_kind, path_key
FROM judged_allocations WHERE free_epoch_index IS NULL;

CREATE TEMP TABLE kept_paths AS
SELECT j.*
FROM judged_allocations AS j
JOIN _kept_paths AS k ON k.process_id IS NOT DISTINCT FROM j.process_id AND k.device_index IS NOT DISTINCT FROM j.device_index
    AND k.level = j.level AND k.memory_kind = j.memory_kind AND k.path_key = j.path_key;
