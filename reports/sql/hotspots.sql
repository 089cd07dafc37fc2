-- Rows of the largest groups of one kind, the largest rows of each, with what the whole group takes and where its path ends.
-- Of functions those that take most themselves, and those that take most with what they call but for the roots of all.
WITH _rows AS (
    SELECT *, CASE WHEN hotspot_kind LIKE 'cpu%' THEN hotspot_event END AS what,
           hotspot_kind IN ('cpu_function', 'gpu_function') AS is_function
    FROM hotspots WHERE hotspot_kind = $kind AND abstained_reason IS NULL
),
_placed AS (
    SELECT *, CASE WHEN is_function AND NOT is_other THEN least(
               row_number() OVER (PARTITION BY what, process_id, device_index ORDER BY is_other, self_amount DESC, total_amount DESC, hotspot_id),
               row_number() OVER (
                   PARTITION BY what, process_id, device_index ORDER BY is_other, total_ratio > 0.95, total_amount DESC, hotspot_id)) * 5 // 3
           ELSE row_number() OVER (
               PARTITION BY what, process_id, device_index ORDER BY is_other, self_amount DESC NULLS LAST, hotspot_id) END AS place,
           sum(self_amount) OVER (PARTITION BY what, process_id, device_index)::DOUBLE AS whole,
           sum(call_count) OVER (PARTITION BY what, process_id, device_index)::DOUBLE AS whole_count,
           count(*) OVER (PARTITION BY what, process_id, device_index) AS row_count
    FROM _rows
),
_shown AS (
    SELECT *, dense_rank() OVER (ORDER BY whole DESC NULLS LAST, what, process_id, device_index) AS group_place FROM _placed
    QUALIFY place <= $limit AND group_place <= $groups
),
_leaves AS (
    SELECT call_path_id, min(frame_ids[-1]) AS frame_id FROM call_paths
    WHERE call_path_id IN (SELECT call_path_id FROM _shown) GROUP BY call_path_id
),
_frames AS (
    SELECT frame_id, min(function) AS function, min(file) AS file, min(line) AS line FROM frames
    WHERE frame_id IN (SELECT frame_id FROM _leaves) GROUP BY frame_id
)
SELECT s.*, f.function AS leaf_function, f.file AS leaf_file, f.line AS leaf_line,
       (SELECT count(DISTINCT (what, process_id, device_index)) FROM _rows) AS group_count
FROM _shown s LEFT JOIN _leaves l USING (call_path_id) LEFT JOIN _frames f USING (frame_id)
ORDER BY s.group_place, s.is_other, CASE WHEN s.is_function THEN s.total_amount END DESC, s.place, s.hotspot_id
