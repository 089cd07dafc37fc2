-- The largest call paths of one level, process and device, root to leaf; the middle of a deep path is frame -1.
WITH _top AS (
    SELECT call_path_id, leaf, weight FROM stack_weights
    WHERE level = $level AND process_id IS NOT DISTINCT FROM $process_id
      AND device_index IS NOT DISTINCT FROM $device_index AND weight > 0
    ORDER BY weight DESC, call_path_id NULLS LAST, leaf LIMIT $paths
),
_known AS (
    SELECT call_path_id, min(frame_ids) AS frame_ids FROM call_paths
    WHERE call_path_id IN (SELECT call_path_id FROM _top) GROUP BY call_path_id
)
SELECT t.weight, t.leaf, len(k.frame_ids) AS depth,
       CASE WHEN len(k.frame_ids) <= $depth THEN k.frame_ids
            ELSE k.frame_ids[:$depth // 2] || [-1] || k.frame_ids[len(k.frame_ids) - ($depth - $depth // 2 - 2):] END AS frame_ids
FROM _top t LEFT JOIN _known k USING (call_path_id)
