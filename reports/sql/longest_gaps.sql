-- The longest gaps, with the call that waited when they began.
SELECT g.*, s.name AS waiting_call, count(*) OVER () AS total
FROM idle_gaps AS g LEFT JOIN sync_stalls AS s USING (stall_id)
ORDER BY g.idle_ns DESC, g.gap_id LIMIT $limit
