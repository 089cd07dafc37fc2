-- Bytes on each NUMA node, by part of the host's memory or by process, one row a sample; without a time only the order counts.
CREATE TEMP TABLE numa_samples AS
SELECT host, process_id, node_index, memory_part, clock_aligned, ts_ns, sum(bytes)::BIGINT AS bytes
FROM (
    SELECT coalesce(f.host, '') AS host, m.process_id, TRY_CAST(json_extract_string(m.labels, '$.node') AS INTEGER) AS node_index,
        CASE m.metric
            WHEN 'host_numa_mem_used_bytes' THEN 'used'
            WHEN 'host_numa_slab_bytes' THEN 'slab'
            WHEN 'host_numa_s_unreclaim_bytes' THEN 'slab_unreclaimable'
            WHEN 'host_numa_anon_pages_bytes' THEN 'anonymous'
            WHEN 'host_numa_file_pages_bytes' THEN 'file'
            WHEN 'process_numa_bytes' THEN 'process'
        END AS memory_part, m.clock_aligned, m.ts_ns, m.value AS bytes
    FROM metrics AS m LEFT JOIN capture_files AS f USING (file_id)
    WHERE m.value IS NOT NULL AND m.metric IN (
        'host_numa_mem_used_bytes', 'host_numa_slab_bytes', 'host_numa_s_unreclaim_bytes', 'host_numa_anon_pages_bytes',
        'host_numa_file_pages_bytes', 'process_numa_bytes'
    )
)
WHERE node_index IS NOT NULL
GROUP BY host, process_id, node_index, memory_part, clock_aligned, ts_ns;
