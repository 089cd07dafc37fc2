-- Pages that each NUMA node handed out between the first and the last sample: to processes that ran on it, to those that ran
-- on another node, and instead of another node that had none. A counter that falls has restarted: nothing is known then.
CREATE TEMP TABLE _node_counters AS
SELECT coalesce(f.host, '') AS host, TRY_CAST(json_extract_string(m.labels, '$.node') AS INTEGER) AS node_index, m.metric, m.ts_ns, m.value
FROM metrics AS m LEFT JOIN capture_files AS f USING (file_id)
WHERE m.ts_ns IS NOT NULL AND m.value IS NOT NULL
    AND m.metric IN ('host_numastat_local_node', 'host_numastat_other_node', 'host_numastat_numa_miss', 'host_numastat_numa_foreign');

CREATE TEMP TABLE _node_steps AS
SELECT host, node_index, metric, min(ts_ns) AS start_ns, max(ts_ns) AS end_ns,
    CASE WHEN bool_and(coalesce(step >= 0, true)) THEN (arg_max(value, ts_ns) - arg_min(value, ts_ns))::BIGINT END AS pages
FROM (
    SELECT *, value - lag(value) OVER (PARTITION BY host, node_index, metric ORDER BY ts_ns) AS step FROM _node_counters
    WHERE node_index IS NOT NULL
)
GROUP BY host, node_index, metric HAVING count(DISTINCT ts_ns) > 1;

CREATE TEMP TABLE numa_traffic_made AS
SELECT *, remote_page_count / nullif(local_page_count + remote_page_count, 0) AS remote_ratio FROM (
    SELECT host, node_index, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        max(pages) FILTER (metric = 'host_numastat_local_node') AS local_page_count,
        max(pages) FILTER (metric = 'host_numastat_other_node') AS remote_page_count,
        max(pages) FILTER (metric = 'host_numastat_numa_miss') AS miss_page_count,
        max(pages) FILTER (metric = 'host_numastat_numa_foreign') AS foreign_page_count
    FROM _node_steps GROUP BY host, node_index
);
