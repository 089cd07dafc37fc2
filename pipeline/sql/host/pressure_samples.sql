-- Memory and pressure of hosts and their cgroups, one row a sample: bytes held and their limits, and counters that only rise
-- (limit events, kills, seconds stalled). The host itself is the cgroup '': it holds what is not available.
CREATE TEMP TABLE _pressure_series AS
SELECT coalesce(f.host, '') AS host, coalesce(json_extract_string(m.labels, '$.cgroup'), '') AS cgroup, m.clock_aligned, m.ts_ns,
    CASE m.metric
        WHEN 'cgroup_memory_events_total' THEN json_extract_string(m.labels, '$.event')
        WHEN 'memory_pressure_seconds_total' THEN json_extract_string(m.labels, '$.stalled')
        WHEN 'cgroup_memory_failcnt' THEN 'max'
        WHEN 'host_vmstat_oom_kill' THEN 'oom_kill'
        ELSE m.metric
    END AS part, m.value
FROM metrics AS m LEFT JOIN capture_files AS f USING (file_id)
WHERE m.ts_ns IS NOT NULL AND m.value IS NOT NULL AND m.metric IN (
    'cgroup_memory_events_total', 'memory_pressure_seconds_total', 'cgroup_memory_failcnt', 'host_vmstat_oom_kill',
    'cgroup_memory_current_bytes', 'cgroup_memory_max_bytes', 'cgroup_memory_high_bytes', 'host_mem_total_bytes', 'host_mem_available_bytes'
);

CREATE TEMP TABLE pressure_samples AS
SELECT host, cgroup, clock_aligned, ts_ns,
    coalesce(max(value) FILTER (part = 'cgroup_memory_current_bytes'),
        max(value) FILTER (part = 'host_mem_total_bytes') - max(value) FILTER (part = 'host_mem_available_bytes')) AS memory_bytes,
    max(value) FILTER (part = 'cgroup_memory_high_bytes') AS high_bytes,
    coalesce(max(value) FILTER (part = 'cgroup_memory_max_bytes'), max(value) FILTER (part = 'host_mem_total_bytes')) AS limit_bytes,
    max(value) FILTER (part = 'high') AS high_total,
    max(value) FILTER (part = 'max') AS max_total,
    max(value) FILTER (part = 'oom') AS oom_total,
    max(value) FILTER (part = 'oom_kill') AS kill_total,
    max(value) FILTER (part = 'some') AS some_seconds,
    max(value) FILTER (part = 'full') AS full_seconds
FROM _pressure_series GROUP BY host, cgroup, clock_aligned, ts_ns;
