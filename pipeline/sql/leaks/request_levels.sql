-- Bytes that the caching allocator had handed out during each request: the lowest of its tokens' samples, which holds
-- least of the request's own passing tensors. `is_lost`: it began before the recorded window did.
CREATE TEMP TABLE request_levels AS
SELECT w.process_id, s.request_id, s.start_ns, s.end_ns, t.level_bytes, s.prompt_tokens, s.start_ns < w.first_ns AS is_lost
FROM request_spans AS s
JOIN judged_windows AS w ON w.process_id = s.process_id OR s.process_id IS NULL
JOIN (
    SELECT process_id, request_id, min(device_allocated_bytes) AS level_bytes FROM tokens
    WHERE device_allocated_bytes IS NOT NULL AND request_id IS NOT NULL GROUP BY process_id, request_id
) AS t ON t.request_id = s.request_id AND (t.process_id = w.process_id OR t.process_id IS NULL)
WHERE s.start_ns IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY w.process_id, s.request_id ORDER BY s.start_ns) = 1;
