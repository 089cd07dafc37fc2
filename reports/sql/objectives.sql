-- Objectives by source: how their windows were judged, with the worst value and why some were not; periods one row each.
SELECT source, metric, objective, period, CASE WHEN window_kind NOT IN ('time', 'count') THEN window_kind END AS around, any_value(unit) AS unit, any_value(target) AS target,
    count(*) FILTER (slo_verdict = 'met') AS met, count(*) FILTER (slo_verdict = 'missed') AS missed,
    count(*) FILTER (slo_verdict = 'abstained') AS abstained, max(value) AS worst, any_value(abstained_reason) AS reason,
    count(*) OVER () AS total
FROM slo
GROUP BY source, metric, objective, period, around
ORDER BY period IS NOT NULL, period, source, metric, objective, min(start_ns) LIMIT $limit
