-- Requests that ran while a host or cgroup was sampled, and whether it was under memory pressure at any time meanwhile.
CREATE TEMP TABLE _pressed AS
SELECT host, cgroup, start_ns, end_ns FROM host_pressure_made WHERE clock_aligned AND is_pressed;

CREATE TEMP TABLE _sampled AS
SELECT host, cgroup, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM host_pressure_made WHERE clock_aligned GROUP BY host, cgroup;

-- Windows follow one another: the last one that begins before a request ends is the one that could overlap it.
CREATE TEMP TABLE pressed_requests AS
SELECT s.host, s.cgroup, r.latency_ns, coalesce(p.end_ns > r.start_ns, false) AS is_pressed
FROM _sampled AS s
JOIN (SELECT start_ns, end_ns, latency_ns FROM request_spans WHERE latency_ns IS NOT NULL AND start_ns IS NOT NULL AND end_ns IS NOT NULL) AS r
    ON r.end_ns > s.first_ns AND r.start_ns < s.last_ns
ASOF LEFT JOIN _pressed AS p ON p.host = s.host AND p.cgroup = s.cgroup AND p.start_ns < r.end_ns;
