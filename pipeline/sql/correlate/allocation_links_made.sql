-- Every join as a row: what an allocation was linked to, and on what grounds. Of tensors only those that live at the end:
-- what a freed one was linked to stands in its own row of `allocations`.
CREATE TEMP TABLE _shown AS
SELECT allocation_id FROM numbered_lives WHERE level <> 'tensor' OR free_ts_ns IS NULL;

CREATE TEMP TABLE _last_calls AS
SELECT a.process_id, a.correlation_id, max(a.start_ns) AS start_ns FROM api_calls AS a
SEMI JOIN (SELECT process_id, alloc_correlation_id FROM allocations_made WHERE level IN ('segment', 'driver')) AS m
    ON m.process_id = a.process_id AND m.alloc_correlation_id = a.correlation_id
GROUP BY a.process_id, a.correlation_id;

CREATE TEMP TABLE allocation_links_made AS
SELECT allocation_id, 'parent' AS link, 'address_and_time' AS link_method, parent_allocation_id::VARCHAR AS linked_id, time_difference_ns
FROM allocation_parents SEMI JOIN _shown USING (allocation_id)
UNION ALL
SELECT m.allocation_id, 'api_call', 'correlation_id', m.alloc_correlation_id::VARCHAR, m.alloc_ts_ns - c.start_ns
FROM allocations_made AS m
JOIN _last_calls AS c ON c.process_id = m.process_id AND c.correlation_id = m.alloc_correlation_id
WHERE m.level IN ('segment', 'driver')
UNION ALL
SELECT l.allocation_id, 'native_stack', 'address_size_time', t.alloc_call_path_id::VARCHAR, t.time_difference_ns
FROM seen_twice AS t JOIN numbered_lives AS l ON l.life_id = t.life_id
WHERE t.alloc_call_path_id IS NOT NULL
UNION ALL
SELECT p.allocation_id, 'native_stack', 'address_size_time', t.alloc_call_path_id::VARCHAR, t.time_difference_ns
FROM seen_twice AS t
JOIN numbered_lives AS l ON l.life_id = t.life_id
JOIN allocation_parents AS p ON p.parent_allocation_id = l.allocation_id
JOIN numbered_lives AS s ON s.allocation_id = p.allocation_id AND s.level = 'segment'
WHERE t.alloc_call_path_id IS NOT NULL
UNION ALL
SELECT allocation_id, 'range', range_method, range_id::VARCHAR, NULL FROM allocation_ranges SEMI JOIN _shown USING (allocation_id) WHERE range_id IS NOT NULL
UNION ALL
SELECT allocation_id, 'request', request_method, request_id, NULL FROM allocation_ranges SEMI JOIN _shown USING (allocation_id) WHERE request_id IS NOT NULL;
