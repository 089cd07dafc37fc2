-- Stack samples, each event apart as a level is elsewhere: samples of perf and alike, not bytes that a tool adds up by stack.
SELECT event AS level, process_id, NULL::INTEGER AS device_index, call_path_id, sample_count AS weight
FROM stack_samples WHERE unit IS DISTINCT FROM 'bytes'
