-- What a token costs, of each process, model and side of memory: growth from one token to the next, and time between them.
CREATE TEMP TABLE token_costs AS
SELECT process_id, model, memory_side, count(DISTINCT request_number) AS request_count, count(growth) AS token_count,
    count(level) AS level_count, avg(growth) AS bytes_per_token_mean, stddev_samp(growth) AS bytes_per_token_deviation,
    quantile_cont(growth, 0.5) AS bytes_per_token_p50, quantile_cont(growth, 0.95) AS bytes_per_token_p95,
    quantile_cont(growth, 0.99) AS bytes_per_token_p99,
    round(quantile_cont(interval_ns, 0.5))::BIGINT AS interval_p50_ns, round(quantile_cont(interval_ns, 0.99))::BIGINT AS interval_p99_ns,
    max(token_index) AS last_position
FROM (
    SELECT process_id, model, 'rss' AS memory_side, request_number, token_index, interval_ns, rss_growth AS growth, rss_bytes AS level FROM token_steps
    UNION ALL
    SELECT process_id, model, 'device', request_number, token_index, interval_ns, device_growth, device_allocated_bytes FROM token_steps
)
GROUP BY process_id, model, memory_side;
