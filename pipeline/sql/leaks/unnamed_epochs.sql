-- Epochs of processes in which nothing named repeats: bursts of allocations between idle times, else equal time windows.
CREATE TEMP TABLE _gaps AS
SELECT process_id, ts_ns, ts_ns - lag(ts_ns) OVER (PARTITION BY process_id ORDER BY ts_ns) AS gap_ns
FROM judged_moments WHERE process_id NOT IN (SELECT process_id FROM named_epochs);

CREATE TEMP TABLE _bursts AS
SELECT g.process_id, g.ts_ns AS start_ns
FROM _gaps AS g
JOIN (
    SELECT process_id, greatest(1000000, 20 * quantile_disc(gap_ns, 0.9)) AS limit_ns
    FROM _gaps WHERE gap_ns IS NOT NULL GROUP BY process_id
) AS l USING (process_id)
WHERE g.gap_ns IS NULL OR g.gap_ns > l.limit_ns;

CREATE TEMP TABLE _bursting AS
SELECT process_id FROM _bursts GROUP BY process_id HAVING count(*) BETWEEN 6 AND 200000;

CREATE TEMP TABLE unnamed_epochs AS
SELECT process_id, 'idle window' AS epoch_kind, CAST(NULL AS VARCHAR) AS epoch_name, start_ns, CAST(NULL AS BIGINT) AS end_ns, CAST(NULL AS VARCHAR) AS request_id
FROM _bursts WHERE process_id IN (SELECT process_id FROM _bursting)
UNION ALL
SELECT w.process_id, 'time window', NULL, w.first_ns + ((w.last_ns - w.first_ns)::HUGEINT * i.i // getvariable('time_windows'))::BIGINT,
    w.first_ns + ((w.last_ns - w.first_ns)::HUGEINT * (i.i + 1) // getvariable('time_windows'))::BIGINT, NULL
FROM judged_windows AS w, range(getvariable('time_windows')) AS i(i)
WHERE w.last_ns > w.first_ns AND w.process_id NOT IN (SELECT process_id FROM named_epochs)
    AND w.process_id NOT IN (SELECT process_id FROM _bursting);
