-- Requests on the capture's clock. A range called `request:<id>` is the same request: the span then covers log and range.
-- Requests that only ranges name have a span without a status. A row without an id (most access logs) is a request too:
-- its file's path and its row there stand for the id, so that it keeps it when files are added.
CREATE TEMP TABLE _request_ranges AS
SELECT process_id, request_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns, min(range_id) AS range_id
FROM request_ranges
GROUP BY process_id, request_id;

CREATE TEMP TABLE _logged AS
SELECT
    q.* REPLACE (coalesce(q.request_id, coalesce(f.path, q.file_id::VARCHAR) || '#' || q.event_index) AS request_id),
    q.request_id IS NULL AS is_request_id_inferred, coalesce(q.start_ns, q.arrival_ns) AS begin_ns, f.rank
FROM requests AS q LEFT JOIN capture_files AS f USING (file_id)
WHERE q.clock_aligned;

CREATE TEMP TABLE request_spans_made AS
SELECT
    coalesce(l.request_id, r.request_id) AS request_id,
    coalesce(l.process_id, r.process_id) AS process_id,
    l.rank,
    coalesce(least(l.begin_ns, r.start_ns), l.begin_ns, r.start_ns) AS start_ns,
    CASE WHEN l.request_id IS NOT NULL AND l.end_ns IS NULL AND r.end_ns IS NULL THEN NULL
        ELSE coalesce(greatest(l.end_ns, r.end_ns), l.end_ns, r.end_ns) END AS end_ns,
    l.first_token_ns,
    l.start_ns - l.arrival_ns AS queue_ns,
    l.end_ns - coalesce(l.arrival_ns, l.start_ns) AS latency_ns,
    l.status, l.model, l.request_kind, l.prompt_tokens, l.output_tokens, l.attributes,
    r.range_id,
    coalesce(l.is_request_id_inferred, false) AS is_request_id_inferred
FROM _logged AS l
FULL JOIN _request_ranges AS r
    ON r.request_id = l.request_id AND (r.process_id = l.process_id OR l.process_id IS NULL OR r.process_id IS NULL);
