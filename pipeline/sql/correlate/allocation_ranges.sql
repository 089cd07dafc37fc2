-- Range and request of every allocation: by thread and time where the API call that made it is known, or where a profiler's
-- trace saw the same tensor, else by time alone.
CREATE TEMP TABLE _moments AS
SELECT process_id, alloc_ts_ns AS ts_ns, min(allocation_id) AS allocation_id FROM numbered_lives
WHERE alloc_ts_ns IS NOT NULL AND memory_kind <> 'static'
GROUP BY process_id, alloc_ts_ns;

CREATE TEMP TABLE _by_time AS
SELECT m.process_id, m.ts_ns, t.range_id, n.start_ns
FROM _moments AS m
JOIN (SELECT DISTINCT process_id, file_id FROM range_timeline) AS f ON f.process_id = m.process_id
ASOF JOIN range_timeline AS t ON t.process_id = m.process_id AND t.file_id = f.file_id AND t.ts_ns <= m.ts_ns
JOIN range_nesting AS n ON n.range_id = t.range_id;

CREATE TEMP TABLE _innermost AS
SELECT process_id, ts_ns, arg_max(range_id, (start_ns, range_id)) AS range_id FROM _by_time GROUP BY process_id, ts_ns;

CREATE TEMP TABLE _request_now AS
SELECT m.process_id, m.ts_ns, t.request_id
FROM _moments AS m
ASOF JOIN request_timeline AS t ON t.process_id = m.process_id AND t.ts_ns <= m.ts_ns
WHERE t.request_id IS NOT NULL;

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
    coalesce(h.range_id, r.range_id, i.range_id) AS range_id,
    CASE WHEN coalesce(h.range_id, r.range_id) IS NOT NULL THEN 'thread_and_time' WHEN i.range_id IS NOT NULL THEN 'time_alone' END AS range_method,
    coalesce(n.request_id, q.request_id) AS request_id,
    CASE WHEN n.request_id IS NOT NULL THEN 'containment' WHEN q.request_id IS NOT NULL THEN 'time_alone' END AS request_method
FROM numbered_lives AS l
LEFT JOIN _by_thread AS h USING (allocation_id)
LEFT JOIN _tensor_ranges AS r USING (allocation_id)
LEFT JOIN _innermost AS i ON i.process_id = l.process_id AND i.ts_ns = l.alloc_ts_ns AND l.memory_kind <> 'static'
LEFT JOIN range_nesting AS n ON n.range_id = coalesce(h.range_id, r.range_id, i.range_id)
LEFT JOIN _request_now AS q ON q.process_id = l.process_id AND q.ts_ns = l.alloc_ts_ns AND l.memory_kind <> 'static'
WHERE coalesce(h.range_id, r.range_id, i.range_id) IS NOT NULL OR q.request_id IS NOT NULL;
