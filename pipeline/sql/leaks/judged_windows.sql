-- The recorded window of each process: from its first to its last judged allocation or allocator event.
CREATE TEMP TABLE judged_windows AS
SELECT m.process_id, least(m.first_ns, coalesce(e.first_ns, m.first_ns)) AS first_ns,
    greatest(m.last_ns, coalesce(e.last_ns, m.last_ns)) AS last_ns, m.alloc_count
FROM (
    SELECT process_id, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, count(*) AS alloc_count FROM judged_moments GROUP BY process_id
) AS m
LEFT JOIN (
    SELECT process_id, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM memory_events
    WHERE clock_aligned AND ts_ns IS NOT NULL AND level IN ('tensor', 'segment') GROUP BY process_id
) AS e USING (process_id);
