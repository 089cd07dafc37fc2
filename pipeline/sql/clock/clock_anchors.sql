-- Moments that two files both saw: an allocation with equal process, address and size (of tensors the size of the block);
-- a range or request with an equal name; a request's first token. One row an anchor, each pair of files once in each
-- direction.
CREATE TEMP TABLE _allocation_marks AS
SELECT
    m.file_id,
    coalesce(m.process_id, p.process_id) AS process_id,
    m.address::VARCHAR || ':' || m.size_bytes::VARCHAR AS mark,
    m.ts_ns
FROM memory_events AS m
LEFT JOIN file_processes AS p USING (file_id)
WHERE m.level IN ('segment', 'driver') AND m.action IN ('alloc', 'map') AND coalesce(m.return_code, 0) = 0
    AND m.memory_kind IS DISTINCT FROM 'static' AND m.ts_ns IS NOT NULL AND m.address <> 0
UNION ALL
SELECT
    m.file_id,
    coalesce(m.process_id, p.process_id),
    concat_ws(':', 'tensor', m.device_index, m.address, (m.size_bytes + 511) // 512),
    m.ts_ns
FROM memory_events AS m
LEFT JOIN file_processes AS p USING (file_id)
WHERE m.level = 'tensor' AND m.action = 'alloc' AND m.ts_ns IS NOT NULL AND m.address <> 0
    AND EXISTS (SELECT 1 FROM memory_events WHERE level = 'tensor' AND source = 'kineto');

CREATE TEMP TABLE _range_marks AS
SELECT
    r.file_id,
    coalesce(r.process_id, p.process_id) AS process_id,
    coalesce(nullif(regexp_extract(r.name, '^(?:request|req)[^0-9A-Za-z]+(.+)$', 1), ''), 'range ' || r.name) AS mark,
    r.start_ns AS ts_ns
FROM ranges AS r
LEFT JOIN file_processes AS p USING (file_id)
WHERE r.start_ns IS NOT NULL AND coalesce(r.range_kind, '') NOT IN ('operator', 'python', 'gpu')
UNION ALL
SELECT r.file_id, coalesce(r.process_id, p.process_id), request_id, coalesce(start_ns, arrival_ns)
FROM requests AS r LEFT JOIN file_processes AS p USING (file_id)
WHERE request_id IS NOT NULL AND coalesce(start_ns, arrival_ns) IS NOT NULL;

CREATE TEMP TABLE _token_marks AS
SELECT t.file_id, coalesce(t.process_id, p.process_id) AS process_id, t.request_id AS mark, t.ts_ns
FROM tokens AS t LEFT JOIN file_processes AS p USING (file_id)
WHERE t.token_index = 0 AND t.ts_ns IS NOT NULL
UNION ALL
SELECT r.file_id, coalesce(r.process_id, p.process_id), r.request_id, r.first_token_ns
FROM requests AS r LEFT JOIN file_processes AS p USING (file_id)
WHERE request_id IS NOT NULL AND first_token_ns IS NOT NULL;

-- A mark that a file shows twice (an address allocated again, a range name reused) ties nothing down: only single ones count.
CREATE TEMP TABLE _marks AS
SELECT 'shared_allocations' AS method, * FROM _allocation_marks
UNION ALL SELECT 'shared_ranges', * FROM _range_marks
UNION ALL SELECT 'shared_tokens', * FROM _token_marks;

CREATE TEMP TABLE _single AS
SELECT method, file_id, process_id, mark, any_value(ts_ns) AS ts_ns
FROM _marks GROUP BY method, file_id, process_id, mark HAVING count(*) = 1;

CREATE TEMP TABLE clock_anchors AS
SELECT a.file_id AS reference_file_id, b.file_id, a.method, a.ts_ns AS reference_ns, b.ts_ns
FROM _single AS a
JOIN _single AS b ON b.method = a.method AND b.mark = a.mark AND b.file_id <> a.file_id
    AND (a.process_id = b.process_id OR a.process_id IS NULL OR b.process_id IS NULL)
QUALIFY row_number() OVER (PARTITION BY a.file_id, b.file_id, a.method ORDER BY hash(a.mark), a.ts_ns) <= 400;
