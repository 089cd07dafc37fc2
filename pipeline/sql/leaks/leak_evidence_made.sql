-- Every surviving allocation with the judged group it belongs to.
CREATE TEMP TABLE leak_evidence_made AS
SELECT s.suspect_id, j.allocation_id, j.epoch_index, j.request_id, j.allocated_bytes, j.requested_bytes, j.call_path_id, j.range_path, j.api_name
FROM epoch_lives AS j
JOIN _assigned AS s ON s.path_key = j.path_key AND s.size_key = j.size_key AND s.level = j.level
    AND s.memory_kind = j.memory_kind AND s.process_id IS NOT DISTINCT FROM j.process_id
    AND s.device_index IS NOT DISTINCT FROM j.device_index AND s.epoch_index IS NOT DISTINCT FROM j.epoch_index
    AND s.range_key IS NOT DISTINCT FROM j.range_key
WHERE j.is_live;
