-- Moments of the caching allocator that tell most: its fullest, its most scattered, each lack of memory, its end.
WITH _ranked AS (
    SELECT *,
        row_number() OVER (PARTITION BY process_id, device_index ORDER BY reserved_bytes DESC, allocated_bytes DESC, ts_ns) AS by_size,
        row_number() OVER (PARTITION BY process_id, device_index
            ORDER BY inactive_bytes * external_fragmentation_ratio DESC NULLS LAST, ts_ns) AS by_scatter
    FROM fragmentation
)
SELECT *, CASE WHEN moment IN ('oom', 'end') THEN moment WHEN by_size = 1 THEN 'fullest' ELSE 'most scattered' END AS label
FROM _ranked
WHERE moment IN ('oom', 'end') OR by_size = 1 OR by_scatter = 1
ORDER BY process_id, device_index, ts_ns LIMIT $limit
