-- Allocations made in the window, by bytes.
SELECT level, process_id, device_index, alloc_call_path_id AS call_path_id, allocated_bytes AS weight
FROM allocations WHERE NOT is_alloc_before_window
