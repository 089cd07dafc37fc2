-- Percentiles of what requests waited for: a source's requests together, by model, and by model and status; and the same
-- of a server's histograms, between the first scrape and the last and since the server started (start_ns is null).
CREATE TEMP TABLE _grouped AS
SELECT source, CASE WHEN grouping(model) = 0 THEN model END AS model, CASE WHEN grouping(status) = 0 THEN coalesce(status, '') END AS status,
    min(at_ns) AS start_ns, max(coalesce(end_ns, at_ns)) AS end_ns, count(*) AS request_count,
    avg(is_error::INTEGER) AS error_ratio, avg(is_truncated::INTEGER) AS truncation_ratio,
    [
        {'measure': 'latency', 'known': count(latency_ns), 'mean': avg(latency_ns), 'shares': quantile_cont(latency_ns, [0.5, 0.95, 0.99]), 'high': max(latency_ns)},
        {'measure': 'first_token', 'known': count(first_token_after_ns), 'mean': avg(first_token_after_ns),
            'shares': quantile_cont(first_token_after_ns, [0.5, 0.95, 0.99]), 'high': max(first_token_after_ns)},
        {'measure': 'queue', 'known': count(queue_ns), 'mean': avg(queue_ns), 'shares': quantile_cont(queue_ns, [0.5, 0.95, 0.99]), 'high': max(queue_ns)}
    ] AS measures
FROM served_requests
GROUP BY GROUPING SETS ((source), (source, model), (source, model, status));

CREATE TEMP TABLE request_latency_made AS
SELECT source, 'requests' AS metric, model, status, m.measure, start_ns, end_ns, request_count, m.known AS measured_count,
    round(m.mean)::BIGINT AS mean_ns, round(m.shares[1])::BIGINT AS p50_ns, round(m.shares[2])::BIGINT AS p95_ns,
    round(m.shares[3])::BIGINT AS p99_ns, m.high AS max_ns,
    CASE m.measure WHEN 'latency' THEN error_ratio END AS error_ratio,
    CASE m.measure WHEN 'latency' THEN truncation_ratio END AS truncation_ratio
FROM (SELECT *, unnest(measures) AS m FROM _grouped)
WHERE m.known > 0 OR m.measure = 'latency'
UNION ALL
SELECT 'prometheus', metric, model, NULL, measure, CASE scope WHEN 'capture' THEN first_ns END, last_ns, request_count, request_count,
    NULL, round(p50_ns)::BIGINT, round(p95_ns)::BIGINT, round(p99_ns)::BIGINT, NULL, NULL, NULL
FROM server_quantiles WHERE scope <> 'window' AND request_count > 0;
