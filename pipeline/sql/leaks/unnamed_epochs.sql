-- Epochs of processes in which nothing named repeats: bursts of allocations between idle times, else equal time windows.
CREATE TEMP TABLE _gaps AS
SELECT process_id, ts_ns, ts_ns - lag(ts_ns) OVER (PARTITION BY process_id ORDER BY ts_ns) AS gap_ns
FROM judged_moments WHERE process_id NOT IN (SELECT process_id FROM named_epochs);

CREATE TEMP TABLE _bursts AS
SELECT g.process_id, g.ts_ns AS start_ns
FROM _gaps AS g
JOIN (
    SELECT process_id, greatest(1000000, 20::HUGEINT * quantile_disc(gap_ns, 0.9)) AS limit_ns
    FROM _gaps WHERE gap_ns IS NOT NULL GROUP BY process_id
) AS l USING (process_id)
WHERE g.gap_ns IS NULL OR g.gap_ns > l.limit_ns;

-- A window is no epoch of anything unless most of what is allocated in one is freed in one: the median later window must
-- free half of what it allocates. One long forward pass does not, and is not judged. Of host memory a quarter of the
-- objects will do: what the kernel keeps for each new file (dentry, inode) it gives back only under pressure.
CREATE TEMP TABLE _windows AS
SELECT process_id, 'idle window' AS epoch_kind, start_ns, CAST(NULL AS BIGINT) AS end_ns FROM _bursts
UNION ALL
SELECT w.process_id, 'time window', w.first_ns + ((w.last_ns - w.first_ns)::HUGEINT * i.i // getvariable('time_windows'))::BIGINT,
    w.first_ns + ((w.last_ns - w.first_ns)::HUGEINT * (i.i + 1) // getvariable('time_windows'))::BIGINT
FROM judged_windows AS w, range(getvariable('time_windows')) AS i(i)
WHERE w.last_ns > w.first_ns AND w.process_id NOT IN (SELECT process_id FROM named_epochs);

CREATE TEMP TABLE _host_judged AS SELECT process_id FROM judged_windows WHERE is_host;

CREATE TEMP TABLE _changes AS
SELECT process_id, alloc_ts_ns AS ts_ns, allocated_bytes AS taken, 0 AS given FROM allocations
WHERE level IN ('tensor', 'driver') AND memory_kind <> 'static' AND alloc_ts_ns IS NOT NULL
    AND process_id IN (SELECT process_id FROM _windows) AND process_id NOT IN (SELECT process_id FROM _host_judged)
UNION ALL
SELECT process_id, coalesce(free_requested_ts_ns, free_ts_ns), 0, allocated_bytes FROM allocations
WHERE level IN ('tensor', 'driver') AND memory_kind <> 'static' AND coalesce(free_requested_ts_ns, free_ts_ns) IS NOT NULL
    AND process_id IN (SELECT process_id FROM _windows) AND process_id NOT IN (SELECT process_id FROM _host_judged)
UNION ALL
SELECT process_id, unnest([alloc_ts_ns, free_ts_ns]), unnest([1, 0]), unnest([0, 1]) FROM (
    SELECT a.process_id, CASE WHEN coalesce(a.alloc_ts_ns < h.judged_until_ns, true) THEN a.alloc_ts_ns END AS alloc_ts_ns,
        CASE WHEN coalesce(a.free_ts_ns < h.judged_until_ns, true) THEN a.free_ts_ns END AS free_ts_ns
    FROM allocations AS a
    LEFT JOIN host_ends AS h ON h.process_id = a.process_id AND h.memory_kind = a.memory_kind
    WHERE a.level = 'host' AND a.process_id IN (SELECT process_id FROM _windows) AND a.process_id IN (SELECT process_id FROM _host_judged)
);

CREATE TEMP TABLE _cyclic AS
SELECT process_id, epoch_kind FROM (
    SELECT process_id, epoch_kind, sum(given) / nullif(sum(taken), 0) AS given_ratio,
        percent_rank() OVER (PARTITION BY process_id, epoch_kind ORDER BY start_ns) AS place
    FROM (
        SELECT k.process_id, k.epoch_kind, w.start_ns, c.taken, c.given
        FROM (SELECT DISTINCT process_id, epoch_kind FROM _windows) AS k
        JOIN _changes AS c USING (process_id)
        ASOF JOIN _windows AS w ON w.process_id = k.process_id AND w.epoch_kind = k.epoch_kind AND w.start_ns <= c.ts_ns
    )
    GROUP BY process_id, epoch_kind, start_ns
)
WHERE place >= 0.5
GROUP BY process_id, epoch_kind
HAVING median(given_ratio) >= CASE WHEN process_id IN (SELECT process_id FROM _host_judged) THEN 0.25 ELSE 0.5 END;

CREATE TEMP TABLE _judgeable AS
SELECT c.process_id, c.epoch_kind FROM _cyclic AS c
JOIN judged_windows AS w USING (process_id)
JOIN (SELECT process_id, epoch_kind, count(*) AS window_count FROM _windows GROUP BY ALL) AS k USING (process_id, epoch_kind)
WHERE w.alloc_count >= 5 * k.window_count AND k.window_count BETWEEN 12 AND 200000
QUALIFY row_number() OVER (PARTITION BY c.process_id ORDER BY c.epoch_kind) = 1;

CREATE TEMP TABLE unnamed_epochs AS
SELECT w.process_id, w.epoch_kind, CAST(NULL AS VARCHAR) AS epoch_name, w.start_ns, w.end_ns, CAST(NULL AS VARCHAR) AS request_id
FROM _windows AS w JOIN _judgeable AS j USING (process_id, epoch_kind);
