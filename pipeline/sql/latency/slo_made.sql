-- Each objective over each window. It is judged when the window holds as many requests as it takes: min_requests, and
-- for a quantile so many that one may lie beyond it. With fewer it is missed all the same when those that break it are
-- more than a full window may have:
--   2 of 30 requests above the P99 target: missed, as 2 of 100 would be; 1 of 30: abstained.
CREATE TEMP TABLE _placed AS
SELECT source, latency_ns, first_token_after_ns, is_short, is_error, is_truncated, 'time' AS window_kind, at_ns AS position
FROM served_requests WHERE at_ns IS NOT NULL
UNION ALL
SELECT source, latency_ns, first_token_after_ns, is_short, is_error, is_truncated, 'count',
    row_number() OVER (PARTITION BY source ORDER BY at_ns, request_id) - 1
FROM served_requests WHERE at_ns IS NOT NULL;

CREATE TEMP TABLE _slid AS
SELECT p.*, unnest(range(
    greatest(0, (p.position - g.first_position - g.length) // g.step), least(g.last_index, (p.position - g.first_position) // g.step) + 1
)) AS window_index
FROM _placed AS p
JOIN (
    SELECT source, window_kind, min(first_position) AS first_position, min(step) AS step, min(length) AS length, max(window_index) AS last_index
    FROM slo_windows WHERE window_index IS NOT NULL GROUP BY source, window_kind
) AS g ON g.source = p.source AND g.window_kind = p.window_kind;

CREATE TEMP TABLE _members AS
SELECT w.window_id, s.latency_ns, s.first_token_after_ns, s.is_short, s.is_error, s.is_truncated
FROM _slid AS s
JOIN slo_windows AS w ON w.source = s.source AND w.window_kind = s.window_kind AND w.window_index = s.window_index
    AND s.position >= w.first_position + w.window_index * w.step AND s.position < w.first_position + w.window_index * w.step + w.length
UNION ALL
SELECT w.window_id, r.latency_ns, r.first_token_after_ns, r.is_short, r.is_error, r.is_truncated
FROM slo_windows AS w
JOIN served_requests AS r ON r.source = w.source AND r.at_ns >= w.start_ns AND r.at_ns < w.end_ns
WHERE w.period IS NOT NULL AND r.clock_aligned;

CREATE TEMP TABLE _logged AS
SELECT window_id, 'requests' AS metric, unnest([
    {'objective': 'latency_p99', 'known': count(latency_ns), 'bad': count(*) FILTER (latency_ns > getvariable('latency_p99_ns')),
        'value': quantile_cont(latency_ns, 0.99) / 1e9},
    {'objective': 'short_latency_p95', 'known': count(latency_ns) FILTER (is_short), 'bad': count(*) FILTER (is_short AND latency_ns > getvariable('short_latency_p95_ns')),
        'value': quantile_cont(latency_ns, 0.95) FILTER (is_short) / 1e9},
    {'objective': 'first_token_p95', 'known': count(first_token_after_ns), 'bad': count(*) FILTER (first_token_after_ns > getvariable('first_token_p95_ns')),
        'value': quantile_cont(first_token_after_ns, 0.95) / 1e9},
    {'objective': 'error_ratio', 'known': count(is_error), 'bad': count(*) FILTER (is_error), 'value': avg(is_error::INTEGER)},
    {'objective': 'truncation_ratio', 'known': count(is_truncated), 'bad': count(*) FILTER (is_truncated), 'value': avg(is_truncated::INTEGER)}
]) AS found
FROM _members GROUP BY window_id;

CREATE TEMP TABLE _counted AS
SELECT w.window_id, s.metric, s.outcome, s.increase AS amount
FROM server_steps AS s
JOIN slo_windows AS w ON w.source = 'prometheus' AND s.ts_ns > w.start_ns AND s.ts_ns <= w.end_ns
WHERE s.series_kind = 'counter' AND s.increase IS NOT NULL
UNION ALL
SELECT w.window_id, s.metric, s.outcome, s.value
FROM server_steps AS s JOIN slo_windows AS w ON w.window_kind = 'server' AND s.is_last
WHERE s.series_kind = 'counter';

CREATE TEMP TABLE _outcomes AS
SELECT s.window_id, s.metric, sum(s.amount) AS known,
    coalesce(sum(s.amount) FILTER (len(list_filter(getvariable('error_statuses'), lambda wanted: s.outcome GLOB wanted)) > 0), 0) AS failed,
    coalesce(sum(s.amount) FILTER (len(list_filter(getvariable('truncated_statuses'), lambda wanted: s.outcome GLOB wanted)) > 0), 0) AS cut
FROM _counted AS s
GROUP BY s.window_id, s.metric HAVING bool_or(s.outcome <> '');

CREATE TEMP TABLE _served AS
SELECT window_id, metric, {'objective': CASE measure WHEN 'latency' THEN 'latency_p99' ELSE 'first_token_p95' END,
    'known': request_count, 'bad': NULL::BIGINT, 'value': CASE measure WHEN 'latency' THEN p99_ns ELSE p95_ns END / 1e9} AS found
FROM server_quantiles WHERE scope = 'window' AND measure IN ('latency', 'first_token')
UNION ALL
SELECT window_id, metric, unnest([
    {'objective': 'error_ratio', 'known': round(known)::BIGINT, 'bad': round(failed)::BIGINT, 'value': failed / nullif(known, 0)},
    {'objective': 'truncation_ratio', 'known': round(known)::BIGINT, 'bad': round(cut)::BIGINT, 'value': cut / nullif(known, 0)}
]) FROM _outcomes;

CREATE TEMP TABLE _judged AS
SELECT w.*, f.metric, f.found.objective AS objective, f.found.known AS known, f.found.bad AS bad, f.found.value AS value, t.target, t.allowed, t.unit, t.missing,
    greatest(getvariable('min_requests'), t.needed) AS needed
FROM slo_windows AS w
JOIN (FROM _logged UNION ALL FROM _served) AS f USING (window_id)
JOIN (VALUES
    ('latency_p99', getvariable('latency_p99_ns') / 1e9, 0.01, 100, 'seconds', 'no request has a start and an end'),
    ('short_latency_p95', getvariable('short_latency_p95_ns') / 1e9, 0.05, 20, 'seconds', 'no request is known to be short'),
    ('first_token_p95', getvariable('first_token_p95_ns') / 1e9, 0.05, 20, 'seconds', 'no request has the time of its first token'),
    ('error_ratio', getvariable('max_error_ratio'), getvariable('max_error_ratio'), 1, 'ratio', 'no request has a status'),
    ('truncation_ratio', getvariable('max_truncation_ratio'), getvariable('max_truncation_ratio'), 1, 'ratio', 'no request has a status')
) AS t(objective, target, allowed, needed, unit, missing) ON t.objective = f.found.objective;

CREATE TEMP TABLE slo_made AS
SELECT source, metric, objective, window_kind, period, start_ns, end_ns, known AS request_count, bad AS bad_count, value, unit, target,
    CASE WHEN is_judged AND value <= target THEN 'met' WHEN is_judged OR is_beyond THEN 'missed' ELSE 'abstained' END AS slo_verdict,
    CASE WHEN is_judged OR is_beyond THEN NULL WHEN known = 0 THEN missing
        ELSE known || ' requests in the window, ' || needed || ' are needed' END AS abstained_reason
FROM (
    SELECT *, known >= needed AND value IS NOT NULL AS is_judged, coalesce(bad > allowed * needed, false) AS is_beyond FROM _judged
)
UNION ALL
-- A period without requests is a row as well.
SELECT w.source, 'requests', 'latency_p99', w.window_kind, w.period, w.start_ns, w.end_ns, 0, 0, NULL, 'seconds',
    getvariable('latency_p99_ns') / 1e9, 'abstained', 'no requests in the window'
FROM slo_windows AS w ANTI JOIN _judged AS j USING (window_id)
WHERE w.source <> 'prometheus' AND w.period IS NOT NULL;
