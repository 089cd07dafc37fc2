-- Allocations live at the end.
SELECT level, process_id, device_index, alloc_call_path_id AS call_path_id, allocated_bytes AS weight
FROM allocations WHERE free_ts_ns IS NULL
