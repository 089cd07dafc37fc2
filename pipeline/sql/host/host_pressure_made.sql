-- What happened to a host's or cgroup's memory between samples, in at most `pressure_windows` windows, beside the latency of
-- the requests that ended in each. A counter that falls has restarted: what it counted in between is not known.
CREATE TEMP TABLE _steps AS
SELECT *, row_number() OVER moments - 2 AS place, count(*) OVER (PARTITION BY host, cgroup, clock_aligned) - 1 AS total,
    lag(ts_ns) OVER moments AS start_ns,
    high_total - lag(high_total) OVER moments AS high_step,
    max_total - lag(max_total) OVER moments AS max_step,
    oom_total - lag(oom_total) OVER moments AS oom_step,
    kill_total - lag(kill_total) OVER moments AS kill_step,
    some_seconds - lag(some_seconds) OVER moments AS some_step,
    full_seconds - lag(full_seconds) OVER moments AS full_step
FROM pressure_samples
WINDOW moments AS (PARTITION BY host, cgroup, clock_aligned ORDER BY ts_ns);

CREATE TEMP TABLE _windows AS
SELECT host, cgroup, clock_aligned, min(start_ns) AS start_ns, max(ts_ns) AS end_ns,
    max(memory_bytes)::BIGINT AS memory_bytes, arg_max(high_bytes, ts_ns)::BIGINT AS high_bytes, arg_max(limit_bytes, ts_ns)::BIGINT AS limit_bytes,
    (sum(high_step) FILTER (high_step >= 0))::BIGINT AS high_event_count,
    (sum(max_step) FILTER (max_step >= 0))::BIGINT AS max_event_count,
    (sum(oom_step) FILTER (oom_step >= 0))::BIGINT AS oom_event_count,
    (sum(kill_step) FILTER (kill_step >= 0))::BIGINT AS kill_count,
    1e9 * sum(some_step) FILTER (some_step >= 0) / sum(ts_ns - start_ns) FILTER (some_step >= 0) AS some_waited,
    1e9 * sum(full_step) FILTER (full_step >= 0) / sum(ts_ns - start_ns) FILTER (full_step >= 0) AS full_waited
FROM _steps WHERE start_ns IS NOT NULL
GROUP BY host, cgroup, clock_aligned, place * getvariable('pressure_windows') // total;

CREATE TEMP TABLE _sampled_spans AS
SELECT host, cgroup, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM _windows WHERE clock_aligned GROUP BY host, cgroup;

CREATE TEMP TABLE _ended AS
SELECT w.host, w.cgroup, w.start_ns, r.latency_ns
FROM _sampled_spans AS s
JOIN (SELECT end_ns, latency_ns FROM request_spans WHERE latency_ns IS NOT NULL) AS r ON r.end_ns > s.first_ns AND r.end_ns <= s.last_ns
ASOF JOIN (SELECT * FROM _windows WHERE clock_aligned) AS w ON w.host = s.host AND w.cgroup = s.cgroup AND w.start_ns < r.end_ns
WHERE r.end_ns <= w.end_ns;

-- Counter and clock are read one after the other: the quotient may be a little above 1. (least() passes over null.)
CREATE TEMP TABLE host_pressure_made AS
SELECT w.* EXCLUDE (some_waited, full_waited),
    CASE WHEN w.some_waited > 1 THEN 1 ELSE w.some_waited END AS some_stalled_ratio,
    CASE WHEN w.full_waited > 1 THEN 1 ELSE w.full_waited END AS full_stalled_ratio,
    coalesce(w.high_event_count > 0 OR w.max_event_count > 0 OR w.oom_event_count > 0 OR w.kill_count > 0
        OR w.some_waited >= getvariable('stalled_min_ratio'), false) AS is_pressed,
    CASE WHEN w.clock_aligned THEN coalesce(l.request_count, 0) END AS request_count, l.p95_ns
FROM _windows AS w
LEFT JOIN (
    SELECT host, cgroup, start_ns, count(*) AS request_count, quantile_cont(latency_ns, 0.95)::BIGINT AS p95_ns
    FROM _ended GROUP BY host, cgroup, start_ns
) AS l ON l.host = w.host AND l.cgroup = w.cgroup AND l.start_ns = w.start_ns AND w.clock_aligned;
