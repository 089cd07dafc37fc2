-- The recorded window of each process: from its first to its last judged allocation or allocator event. Of host memory,
-- which is recorded before and after the work as well, the last hundredth of the allocations does not make it longer.
CREATE TEMP TABLE judged_windows AS
SELECT m.process_id, least(m.first_ns, coalesce(e.first_ns, m.first_ns)) AS first_ns,
    greatest(m.last_ns, coalesce(e.last_ns, m.last_ns)) AS last_ns, m.alloc_count, m.is_host
FROM (
    SELECT process_id, min(ts_ns) AS first_ns,
        CASE WHEN bool_or(is_host) THEN quantile_disc(ts_ns, 0.99) ELSE max(ts_ns) END AS last_ns, count(*) AS alloc_count,
        bool_or(is_host) AS is_host
    FROM judged_moments GROUP BY process_id
) AS m
LEFT JOIN (
    SELECT process_id, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM memory_events
    WHERE clock_aligned AND ts_ns IS NOT NULL AND level IN ('tensor', 'segment') GROUP BY process_id
) AS e USING (process_id);
