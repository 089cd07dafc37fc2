-- Moments of the caching allocator that tell most: its fullest, its most scattered, with most waiting for a stream, each lack of memory, its end.
WITH _ranked AS (
    SELECT *,
        row_number() OVER (PARTITION BY process_id, device_index ORDER BY reserved_bytes DESC, allocated_bytes DESC, ts_ns) AS by_size,
        row_number() OVER (PARTITION BY process_id, device_index
            ORDER BY inactive_bytes * external_fragmentation_ratio DESC NULLS LAST, ts_ns) AS by_scatter,
        row_number() OVER (PARTITION BY process_id, device_index ORDER BY pending_free_bytes DESC, ts_ns) AS by_waiting
    FROM fragmentation
)
SELECT *, CASE WHEN moment IN ('oom', 'end') THEN moment WHEN by_size = 1 THEN 'fullest'
    WHEN by_scatter = 1 THEN 'most scattered' ELSE 'most waiting' END AS label
FROM _ranked
WHERE moment IN ('oom', 'end') OR by_size = 1 OR by_scatter = 1
    OR (by_waiting = 1 AND pending_free_bytes > 0)
ORDER BY process_id, device_index, ts_ns LIMIT $limit
