-- Levels, processes and devices with something to show, the finest level first.
SELECT level, process_id, device_index, sum(weight)::BIGINT AS weight, sum(unknown)::BIGINT AS unknown, count(*) AS paths
FROM stack_weights GROUP BY level, process_id, device_index HAVING sum(weight) > 0
ORDER BY coalesce(list_position(['tensor', 'segment', 'driver', 'host'], level), 9), sum(weight) DESC, level, process_id,
         device_index
