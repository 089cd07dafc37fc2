-- Allocations made in the window, by number.
SELECT level, process_id, device_index, alloc_call_path_id AS call_path_id, 1 AS weight
FROM allocations WHERE NOT is_alloc_before_window
