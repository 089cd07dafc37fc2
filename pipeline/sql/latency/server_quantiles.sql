-- Quantiles of a server's histograms, by the usual interpolation: linear inside the bucket that holds the rank, from 0 in
-- the first one, and no further than the last finite bound. `scope` is capture (between its scrapes), server (since it
-- started) or window. `model` is null for all of them together.
CREATE TEMP TABLE _parts AS
SELECT 'capture' AS scope, NULL::BIGINT AS window_id, metric, measure, model, le_ns, increase AS amount, ts_ns FROM server_steps
WHERE series_kind = 'histogram' AND NOT is_only AND ts_ns IS NOT NULL
UNION ALL
SELECT 'server', NULL, metric, measure, model, le_ns, value, ts_ns FROM server_steps WHERE series_kind = 'histogram' AND is_last
UNION ALL
SELECT 'window', w.window_id, s.metric, s.measure, NULL, s.le_ns, s.increase, s.ts_ns
FROM (SELECT metric, measure, le_ns, ts_ns, sum(increase) AS increase FROM server_steps
    WHERE series_kind = 'histogram' AND increase IS NOT NULL GROUP BY ALL) AS s
JOIN slo_windows AS w ON w.source = 'prometheus' AND s.ts_ns > w.start_ns AND s.ts_ns <= w.end_ns
UNION ALL
SELECT 'window', w.window_id, s.metric, s.measure, NULL, s.le_ns, s.value, NULL FROM server_steps AS s
JOIN slo_windows AS w ON w.window_kind = 'server' AND s.is_last
WHERE s.series_kind = 'histogram';

CREATE TEMP TABLE _sums AS
SELECT scope, window_id, metric, measure, CASE WHEN grouping(model) = 0 THEN model END AS model, le_ns,
    coalesce(sum(amount), 0) AS amount, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
FROM _parts
GROUP BY GROUPING SETS ((scope, window_id, metric, measure, le_ns), (scope, window_id, metric, measure, le_ns, model))
HAVING grouping(model) = 1 OR scope <> 'window';

CREATE TEMP TABLE _rising AS
SELECT *, max(amount) OVER buckets AS held, max(amount) OVER whole AS total,
    max(isinf(le_ns)) OVER whole AS is_whole
FROM _sums
WINDOW buckets AS (PARTITION BY scope, window_id, metric, measure, model ORDER BY le_ns),
    whole AS (PARTITION BY scope, window_id, metric, measure, model);

CREATE TEMP TABLE _bounded AS
SELECT *, lag(le_ns, 1, least(0, le_ns)) OVER buckets AS low_ns, lag(held, 1, 0) OVER buckets AS below
FROM _rising WHERE is_whole
WINDOW buckets AS (PARTITION BY scope, window_id, metric, measure, model ORDER BY le_ns);

CREATE TEMP TABLE _ranked AS
SELECT *, share * total AS place FROM (SELECT *, unnest([0.5, 0.95, 0.99]) AS share FROM _bounded);

CREATE TEMP TABLE _found AS
SELECT scope, window_id, metric, measure, model, share,
    arg_min(CASE WHEN isinf(le_ns) THEN low_ns WHEN le_ns <= 0 THEN le_ns
        ELSE low_ns + (le_ns - low_ns) * (place - below) / nullif(held - below, 0) END, le_ns) FILTER (held >= place AND total > 0) AS value_ns
FROM _ranked GROUP BY scope, window_id, metric, measure, model, share;

CREATE TEMP TABLE server_quantiles AS
SELECT f.*, b.request_count, b.first_ns, b.last_ns
FROM (
    SELECT scope, window_id, metric, measure, model, max(value_ns) FILTER (share = 0.5) AS p50_ns,
        max(value_ns) FILTER (share = 0.95) AS p95_ns, max(value_ns) FILTER (share = 0.99) AS p99_ns
    FROM _found GROUP BY scope, window_id, metric, measure, model
) AS f
JOIN (
    SELECT scope, window_id, metric, measure, model, round(max(total))::BIGINT AS request_count, min(first_ns) AS first_ns, max(last_ns) AS last_ns
    FROM _bounded GROUP BY scope, window_id, metric, measure, model
) AS b ON b.scope = f.scope AND b.window_id IS NOT DISTINCT FROM f.window_id AND b.metric = f.metric AND b.measure = f.measure
    AND b.model IS NOT DISTINCT FROM f.model;
