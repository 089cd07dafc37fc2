-- What a server's own histograms and counters of requests rose by from one scrape to the next. A value that falls is a
-- restart: it counts from 0. What stood in the first scrape happened before it: `increase` is null there, but for a series
-- that was scraped once only. Scrapes without times follow each other as they stand in their file.
CREATE TEMP TABLE _measured AS
SELECT metric, 'histogram' AS series_kind, regexp_replace(metric, '_bucket$', '') AS base,
    CASE WHEN regexp_matches(metric, '_(ms|milliseconds)_bucket$') THEN 1e6 ELSE 1e9 END AS unit_ns,
    CASE
        WHEN regexp_matches(metric, '[:_]?(e2e_request_latency|request_e2e_latency|request_latency|request_duration)(_seconds|_ms|_milliseconds)?_bucket$') THEN 'latency'
        WHEN regexp_matches(metric, 'time_to_first_token(_seconds|_ms|_milliseconds)?_bucket$') THEN 'first_token'
        WHEN regexp_matches(metric, '(queue_time|queue_duration|time_in_queue)(_seconds|_ms|_milliseconds)?_bucket$') THEN 'queue'
        WHEN regexp_matches(metric, '(inter_token_latency|time_per_output_token|mean_time_per_token_duration)(_seconds|_ms|_milliseconds)?_bucket$') THEN 'token_interval'
    END AS measure
FROM (SELECT DISTINCT metric FROM metrics WHERE ends_with(metric, '_bucket') AND NOT starts_with(metric, 'http_'))
UNION ALL
-- `tgi_request_success` and `tgi_request_failure` are one count by outcome.
SELECT metric, 'counter', regexp_replace(metric, '(_success|_failure)?(_total)?$', ''), 1, 'outcome'
FROM (SELECT DISTINCT metric FROM metrics)
WHERE regexp_matches(metric, '(^|[:_])(requests|request_success|request_failure|request_count)(_total)?$');

CREATE TEMP TABLE _series AS
SELECT s.file_id, s.event_index, m.series_kind, m.measure, m.base AS metric, s.metric AS name, s.labels, s.ts_ns, s.value, s.clock_aligned,
    CASE m.series_kind WHEN 'histogram' THEN TRY_CAST(replace(json_extract_string(s.labels, '$.le'), '+Inf', 'inf') AS DOUBLE) * m.unit_ns END AS le_ns,
    coalesce(json_extract_string(s.labels, '$.model_name'), json_extract_string(s.labels, '$.model'), '') AS model,
    lower(coalesce(
        CASE WHEN regexp_matches(s.metric, '_failure(_total)?$') THEN 'error' END,
        json_extract_string(s.labels, '$.status'), json_extract_string(s.labels, '$.status_code'), json_extract_string(s.labels, '$.code'),
        json_extract_string(s.labels, '$.finished_reason'), json_extract_string(s.labels, '$.finish_reason'), ''
    )) AS outcome
FROM metrics AS s JOIN _measured AS m ON m.metric = s.metric
WHERE m.measure IS NOT NULL AND isfinite(s.value) AND s.value >= 0
    AND coalesce(json_extract_string(s.labels, '$.handler'), '') NOT IN ('/metrics', '/health', '/ping');

CREATE TEMP TABLE server_steps AS
SELECT * EXCLUDE (scrapes, before),
    CASE WHEN scrapes = 1 THEN value WHEN before IS NULL THEN NULL WHEN value < before THEN value ELSE value - before END AS increase,
    row_number() OVER (PARTITION BY file_id, name, labels ORDER BY ts_ns DESC, event_index DESC) = 1 AS is_last,
    scrapes = 1 AS is_only
FROM (
    SELECT *, lag(value) OVER scraped AS before, count(*) OVER (PARTITION BY file_id, name, labels) AS scrapes FROM _series
    WINDOW scraped AS (PARTITION BY file_id, name, labels ORDER BY ts_ns, event_index)
)
WHERE series_kind = 'counter' OR le_ns IS NOT NULL;
