-- Samples by task, event and call path: their own count, their weight (a period where one is known), and the first one's place.
WITH _perf AS (SELECT bool_or(source = 'perf') AS has_perf FROM stack_samples)
SELECT event, process_name, process_id, thread_id, call_path_id, ts_ns IS NOT NULL AS has_time, any_value(source) AS source,
       sum(sample_count)::BIGINT AS samples, sum(coalesce(nullif(weight, 0), sample_count))::HUGEINT AS weight,
       min((file_id, event_index)) AS first
FROM stack_samples, _perf
WHERE NOT has_perf OR source = 'perf'
GROUP BY event, process_name, process_id, thread_id, call_path_id, has_time
ORDER BY first
