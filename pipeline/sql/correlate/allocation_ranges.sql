-- Range and request of every allocation: by thread and time where the API call that made it is known, or where a profiler's
-- trace saw the same tensor, else by time alone.
-- What is open in a process from one moment to the next: the innermost range of all its files, and the only request.
CREATE TEMP TABLE _range_files AS
SELECT process_id, file_id, count(*) OVER (PARTITION BY process_id) AS file_count
FROM (SELECT DISTINCT process_id, file_id FROM range_timeline);

CREATE TEMP TABLE _innermost AS
SELECT t.process_id, t.ts_ns, n.range_id
FROM range_timeline AS t
JOIN _range_files AS f ON f.process_id = t.process_id AND f.file_id = t.file_id AND f.file_count = 1
LEFT JOIN range_nesting AS n ON n.range_id = t.range_id
UNION ALL
SELECT m.process_id, m.ts_ns, arg_max(n.range_id, (n.start_ns, n.range_id)) FILTER (n.range_id IS NOT NULL)
FROM (SELECT DISTINCT process_id, ts_ns FROM range_timeline) AS m
JOIN _range_files AS f ON f.process_id = m.process_id AND f.file_count > 1
ASOF JOIN range_timeline AS t ON t.process_id = m.process_id AND t.file_id = f.file_id AND t.ts_ns <= m.ts_ns
LEFT JOIN range_nesting AS n ON n.range_id = t.range_id
GROUP BY m.process_id, m.ts_ns;

CREATE TEMP TABLE _timeline AS
SELECT m.process_id, m.ts_ns, i.range_id, q.request_id
FROM (SELECT process_id, ts_ns FROM _innermost UNION SELECT process_id, ts_ns FROM request_timeline) AS m
ASOF LEFT JOIN _innermost AS i ON i.process_id = m.process_id AND i.ts_ns <= m.ts_ns
ASOF LEFT JOIN request_timeline AS q ON q.process_id = m.process_id AND q.ts_ns <= m.ts_ns;

-- The last call of a number first, then its allocations: a number that many of both share must not multiply them.
CREATE TEMP TABLE _allocating_calls AS
SELECT a.process_id, a.file_id, a.thread_id, a.correlation_id, a.start_ns FROM api_calls AS a
SEMI JOIN (SELECT process_id, alloc_correlation_id FROM numbered_lives WHERE level = 'driver') AS d
    ON d.process_id = a.process_id AND d.alloc_correlation_id = a.correlation_id
WHERE a.clock_aligned;

CREATE TEMP TABLE _call_ranges AS
SELECT a.process_id, a.correlation_id, t.range_id
FROM _allocating_calls AS a
ASOF JOIN thread_timeline AS t ON t.process_id = a.process_id AND t.file_id = a.file_id AND t.thread_id = a.thread_id
    AND t.ts_ns <= a.start_ns
WHERE t.range_id IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY a.process_id, a.correlation_id ORDER BY a.start_ns DESC, t.range_id) = 1;

CREATE TEMP TABLE _by_thread AS
SELECT d.allocation_id, c.range_id
FROM numbered_lives AS d
JOIN _call_ranges AS c ON c.process_id = d.process_id AND c.correlation_id = d.alloc_correlation_id
WHERE d.level = 'driver';

-- A tensor is the trace's when address and time agree within a millisecond: the trace tells the thread.
CREATE TEMP TABLE _tensor_threads AS
SELECT l.allocation_id, l.process_id, l.alloc_ts_ns, m.file_id, m.thread_id
FROM (SELECT * FROM numbered_lives WHERE level = 'tensor' AND alloc_ts_ns IS NOT NULL) AS l
ASOF JOIN (
    SELECT * FROM memory_events
    WHERE source = 'kineto' AND level = 'tensor' AND action = 'alloc' AND clock_aligned AND thread_id IS NOT NULL
) AS m
    ON m.process_id = l.process_id AND m.device_index = l.device_index AND m.address = l.address AND m.ts_ns <= l.alloc_ts_ns + 50000
WHERE l.alloc_ts_ns - m.ts_ns <= 1000000;

CREATE TEMP TABLE _tensor_ranges AS
SELECT r.allocation_id, t.range_id
FROM _tensor_threads AS r
ASOF JOIN thread_timeline AS t ON t.process_id = r.process_id AND t.file_id = r.file_id AND t.thread_id = r.thread_id
    AND t.ts_ns <= r.alloc_ts_ns
WHERE t.range_id IS NOT NULL;

CREATE TEMP TABLE allocation_ranges AS
SELECT
    l.allocation_id,
    coalesce(h.range_id, r.range_id, t.range_id) AS range_id,
    CASE WHEN coalesce(h.range_id, r.range_id) IS NOT NULL THEN 'thread_and_time' WHEN t.range_id IS NOT NULL THEN 'time_alone' END AS range_method,
    coalesce(n.request_id, t.request_id) AS request_id,
    CASE WHEN n.request_id IS NOT NULL THEN 'containment' WHEN t.request_id IS NOT NULL THEN 'time_alone' END AS request_method
FROM (
    SELECT allocation_id, process_id, CASE WHEN memory_kind <> 'static' THEN alloc_ts_ns END AS alloc_ts_ns FROM numbered_lives
) AS l
ASOF LEFT JOIN _timeline AS t ON t.process_id = l.process_id AND t.ts_ns <= l.alloc_ts_ns
LEFT JOIN _by_thread AS h USING (allocation_id)
LEFT JOIN _tensor_ranges AS r USING (allocation_id)
LEFT JOIN range_nesting AS n ON n.range_id = coalesce(h.range_id, r.range_id, t.range_id)
WHERE coalesce(h.range_id, r.range_id, t.range_id) IS NOT NULL OR t.request_id IS NOT NULL;
