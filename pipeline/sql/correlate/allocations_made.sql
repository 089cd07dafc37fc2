-- The heart: every allocation at every level with its range, request and holder. A segment takes the correlation id of
-- the driver allocation that it is. A view: its rows are made once, when they are written as `allocations`.
CREATE TEMP VIEW allocations_made AS
SELECT
    l.* EXCLUDE (life_id, alloc_correlation_id, free_correlation_id),
    coalesce(l.alloc_correlation_id, d.alloc_correlation_id) AS alloc_correlation_id,
    coalesce(l.free_correlation_id, CASE WHEN l.free_ts_ns IS NOT NULL THEN d.free_correlation_id END) AS free_correlation_id,
    r.range_id,
    r.request_id,
    p.parent_allocation_id
FROM numbered_lives AS l
LEFT JOIN allocation_ranges AS r USING (allocation_id)
LEFT JOIN allocation_parents AS p USING (allocation_id)
LEFT JOIN numbered_lives AS d ON l.level = 'segment' AND d.allocation_id = p.parent_allocation_id;
