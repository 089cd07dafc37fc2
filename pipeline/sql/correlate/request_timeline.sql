-- The only open request of each process from one moment to the next; null while none or several are open. Requests without
-- an id of their own count only where no log names any: else they are those requests once more, as the proxy saw them.
CREATE TEMP TABLE _numbered_spans AS
SELECT *, row_number() OVER (ORDER BY process_id NULLS FIRST, start_ns, request_id) AS number FROM request_spans_made
WHERE start_ns IS NOT NULL AND (end_ns IS NULL OR end_ns >= start_ns)
    AND (NOT is_request_id_inferred OR NOT EXISTS (FROM request_spans_made WHERE NOT is_request_id_inferred));

CREATE TEMP TABLE request_timeline AS
SELECT t.process_id, t.ts_ns, s.request_id FROM (
    SELECT process_id, ts_ns, sum(sum(step)) OVER moments AS open_count, (sum(sum(step * number)) OVER moments)::BIGINT AS open_sum
    FROM (
        SELECT process_id, start_ns AS ts_ns, number, 1 AS step FROM _numbered_spans
        UNION ALL SELECT process_id, end_ns, number, -1 FROM _numbered_spans WHERE end_ns IS NOT NULL
    )
    GROUP BY process_id, ts_ns
    WINDOW moments AS (PARTITION BY process_id ORDER BY ts_ns)
) AS t
LEFT JOIN _numbered_spans AS s ON t.open_count = 1 AND s.number = t.open_sum;
