-- Stalls with where they happened: range, request, the regular work or not, and what waited for a stream meanwhile.
CREATE TEMP TABLE _stalls AS
SELECT row_number() OVER (ORDER BY start_ns, file_id, event_index, stall_kind) - 1 AS stall_id, *
FROM (
    SELECT *, NULL::BIGINT AS eager_range_id, NULL::BIGINT AS launch_count FROM stall_calls
    UNION ALL BY NAME
    SELECT 'eager_fallback' AS stall_kind, name, source, file_id, event_index, process_id, thread_id, -1 AS clock_id, start_ns, end_ns,
        range_id AS eager_range_id, launch_count, detail
    FROM eager_ranges
);

CREATE TEMP TABLE _on_thread AS
SELECT s.stall_id, t.range_id
FROM (SELECT * FROM _stalls WHERE clock_id = -1 AND eager_range_id IS NULL) AS s
ASOF JOIN thread_timeline AS t
    ON t.process_id = s.process_id AND t.file_id = s.file_id AND t.thread_id = s.thread_id AND t.ts_ns <= s.start_ns
WHERE t.range_id IS NOT NULL;

-- Without a range on its own thread: the innermost one of the process, where only one is open.
CREATE TEMP TABLE _at_time AS
SELECT o.stall_id, arg_max(n.range_id, (n.start_ns, n.range_id)) AS range_id
FROM (
    SELECT s.stall_id, s.process_id, s.start_ns, f.file_id
    FROM _stalls AS s
    ANTI JOIN _on_thread AS h ON h.stall_id = s.stall_id
    JOIN (SELECT DISTINCT process_id, file_id FROM range_timeline) AS f ON f.process_id = s.process_id
    WHERE s.clock_id = -1 AND s.eager_range_id IS NULL
) AS o
ASOF JOIN range_timeline AS t ON t.process_id = o.process_id AND t.file_id = o.file_id AND t.ts_ns <= o.start_ns
JOIN range_nesting AS n ON n.range_id = t.range_id
GROUP BY o.stall_id;

CREATE TEMP TABLE _request_then AS
SELECT s.stall_id, t.request_id
FROM (SELECT * FROM _stalls WHERE clock_id = -1) AS s
ASOF JOIN request_timeline AS t ON t.process_id = s.process_id AND t.ts_ns <= s.start_ns
WHERE t.request_id IS NOT NULL;

-- Bytes of tensors that their owner gave back and that a stream still holds, from one moment to the next.
CREATE TEMP TABLE _with_history AS
SELECT DISTINCT a.process_id FROM allocations AS a SEMI JOIN _stalls AS s ON s.process_id = a.process_id
WHERE a.level = 'tensor' AND a.free_requested_ts_ns IS NOT NULL;

CREATE TEMP TABLE _waiting AS
SELECT a.process_id, a.free_requested_ts_ns, a.free_ts_ns, a.allocated_bytes FROM allocations AS a SEMI JOIN _with_history USING (process_id)
WHERE a.level = 'tensor' AND coalesce(a.free_ts_ns > a.free_requested_ts_ns, a.free_requested_ts_ns IS NOT NULL);

CREATE TEMP TABLE _pending AS
SELECT process_id, ts_ns, sum(sum(change)) OVER (PARTITION BY process_id ORDER BY ts_ns) AS bytes
FROM (
    SELECT process_id, free_requested_ts_ns AS ts_ns, allocated_bytes AS change FROM _waiting
    UNION ALL SELECT process_id, free_ts_ns, -allocated_bytes FROM _waiting WHERE free_ts_ns IS NOT NULL
)
GROUP BY process_id, ts_ns;

CREATE TEMP TABLE _held AS
SELECT b.stall_id, greatest(coalesce(b.bytes, 0), coalesce(e.bytes, 0))::BIGINT AS pending_free_bytes
FROM (
    SELECT s.stall_id, s.process_id, s.end_ns, p.bytes
    FROM (SELECT * FROM _stalls SEMI JOIN _with_history USING (process_id) WHERE clock_id = -1) AS s
    ASOF LEFT JOIN _pending AS p ON p.process_id = s.process_id AND p.ts_ns <= s.start_ns
) AS b
ASOF LEFT JOIN _pending AS e ON e.process_id = b.process_id AND e.ts_ns < coalesce(b.end_ns, 0);

CREATE TEMP TABLE sync_stalls_made AS
SELECT
    s.stall_id, s.stall_kind, s.name, s.source, s.file_id, s.event_index, s.process_id, s.thread_id, s.device_index, s.stream_id,
    s.start_ns, s.end_ns, s.end_ns - s.start_ns AS duration_ns, s.clock_id = -1 AS clock_aligned,
    CASE WHEN w.start_ns IS NOT NULL THEN s.start_ns BETWEEN w.start_ns AND w.end_ns END AS is_hot,
    s.size_bytes::BIGINT AS size_bytes, s.launch_count, p.pending_free_bytes, s.correlation_id, s.call_path_id,
    n.range_id, n.range_path, coalesce(n.request_id, q.request_id) AS request_id, s.detail
FROM _stalls AS s
LEFT JOIN hot_windows AS w ON w.clock_id = s.clock_id AND w.process_id IS NOT DISTINCT FROM s.process_id
LEFT JOIN _on_thread AS h ON h.stall_id = s.stall_id
LEFT JOIN _at_time AS i ON i.stall_id = s.stall_id
LEFT JOIN range_nesting AS n ON n.range_id = coalesce(s.eager_range_id, h.range_id, i.range_id)
LEFT JOIN _request_then AS q ON q.stall_id = s.stall_id
LEFT JOIN _held AS p ON p.stall_id = s.stall_id;
