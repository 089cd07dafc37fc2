-- Latency and throughput of each configuration against their targets, 1 is best: configurations are periods of capture.yaml
-- marked so, else the capture. Of several logs the one that knows most latencies speaks.
CREATE TEMP TABLE _chosen AS
SELECT * FROM served_requests WHERE at_ns IS NOT NULL AND source = (
    SELECT source FROM served_requests GROUP BY source ORDER BY count(latency_ns) DESC, source LIMIT 1
);

CREATE TEMP TABLE _configured AS
SELECT p.name AS configuration, p.start_ns, p.end_ns, r.* EXCLUDE (end_ns), r.end_ns AS ended_ns
FROM capture_notes AS p
LEFT JOIN _chosen AS r ON r.clock_aligned AND r.at_ns >= p.start_ns AND r.at_ns < p.end_ns
WHERE p.fact = 'period' AND p.text_value = 'configuration'
UNION ALL
SELECT (SELECT max(text_value) FROM capture_notes WHERE fact = 'capture' AND name = 'configuration'), NULL, NULL, r.* EXCLUDE (end_ns), r.end_ns
FROM _chosen AS r
WHERE NOT EXISTS (FROM capture_notes WHERE fact = 'period' AND text_value = 'configuration');

CREATE TEMP TABLE _scored AS
SELECT configuration, coalesce(start_ns, first_ns) AS start_ns, coalesce(end_ns, last_ns) AS end_ns, request_count, p99_ns, good / span_s AS requests_per_second,
    tokens / span_s AS tokens_per_second, abstained_reason,
    CASE WHEN abstained_reason IS NULL THEN greatest(0, least(1, 1 - p99_ns / nullif(getvariable('latency_p99_ns'), 0))) END AS latency_score,
    CASE WHEN abstained_reason IS NULL THEN least(1, good / span_s / nullif(getvariable('requests_per_second'), 0)) END AS throughput_score
FROM (
    SELECT *, nullif(last_ns - first_ns, 0) / 1e9 AS span_s,
        CASE WHEN latency_count = 0 THEN 'no request has a start and an end'
            WHEN latency_count < getvariable('min_requests') THEN latency_count || ' requests, ' || getvariable('min_requests') || ' are needed' END AS abstained_reason
    FROM (
        SELECT configuration, start_ns, end_ns, min(at_ns) AS first_ns, max(coalesce(ended_ns, at_ns)) AS last_ns, count(request_id) AS request_count,
            count(latency_ns) AS latency_count, quantile_cont(latency_ns, 0.99) AS p99_ns,
            count(request_id) FILTER (latency_ns IS NOT NULL AND NOT coalesce(is_error OR is_truncated, false)) AS good, sum(output_tokens) AS tokens
        FROM _configured GROUP BY configuration, start_ns, end_ns
    )
);

CREATE TEMP TABLE pareto_made AS
SELECT s.configuration, s.start_ns, s.end_ns, s.request_count, round(s.p99_ns)::BIGINT AS p99_ns, s.requests_per_second, s.tokens_per_second,
    s.latency_score, s.throughput_score,
    CASE WHEN s.latency_score IS NOT NULL AND s.throughput_score IS NOT NULL THEN NOT EXISTS (
        FROM _scored AS o WHERE o.latency_score >= s.latency_score AND o.throughput_score >= s.throughput_score
            AND (o.latency_score > s.latency_score OR o.throughput_score > s.throughput_score)
    ) END AS is_on_front,
    s.abstained_reason
FROM _scored AS s;
