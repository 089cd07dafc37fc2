-- Frames of the call paths that samples have.
SELECT call_path_id, min(frame_ids) AS frame_ids FROM call_paths
WHERE call_path_id IN (SELECT call_path_id FROM stack_samples) GROUP BY call_path_id
