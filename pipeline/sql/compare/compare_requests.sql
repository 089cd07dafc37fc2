-- Requests of the log that knows most latencies, in the order of arrival.
CREATE TEMP TABLE compare_requests AS
SELECT request_id, model, at_ns, end_ns, latency_ns, output_tokens, source,
    end_ns IS NOT NULL AND NOT coalesce(is_error OR is_truncated, false) AS is_whole
FROM served_requests AS s
WHERE at_ns IS NOT NULL AND source = (
    SELECT source FROM served_requests GROUP BY source ORDER BY count(latency_ns) DESC, source LIMIT 1
)
ORDER BY at_ns, request_id;
