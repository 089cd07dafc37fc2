-- Requests by source, model and status, one row a group with its measures side by side; a server's histograms likewise.
WITH _named AS (
    SELECT *, CASE WHEN source = 'prometheus' THEN regexp_extract(metric, '^[a-z]+') ELSE '' END AS server, start_ns IS NULL AS is_since_start
    FROM request_latency
)
SELECT source, server, model, status, is_since_start, max(request_count) FILTER (measure = 'latency' OR source <> 'prometheus') AS request_count,
    max(p50_ns) FILTER (measure = 'latency') AS p50_ns, max(p95_ns) FILTER (measure = 'latency') AS p95_ns, max(p99_ns) FILTER (measure = 'latency') AS p99_ns,
    max(max_ns) FILTER (measure = 'latency') AS max_ns, max(p95_ns) FILTER (measure = 'first_token') AS first_token_p95_ns,
    max(p95_ns) FILTER (measure = 'queue') AS queue_p95_ns, max(error_ratio) AS error_ratio, max(truncation_ratio) AS truncation_ratio,
    count(*) OVER () AS total
FROM _named
WHERE model IS NULL OR status IS NOT NULL
GROUP BY source, server, model, status, is_since_start
ORDER BY source = 'prometheus', source, model IS NOT NULL, is_since_start, request_count DESC NULLS LAST, model, status LIMIT $limit
