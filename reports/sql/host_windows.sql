-- Windows of one host or cgroup in order of time.
SELECT * FROM host_pressure
WHERE host IS NOT DISTINCT FROM $host AND cgroup = $cgroup AND clock_aligned = $clock_aligned
    AND start_ns IS NOT NULL AND end_ns IS NOT NULL
ORDER BY start_ns LIMIT $limit
