-- Every logged request with what it is judged by. Durations are of one file and hold whether or not its clock was aligned.
-- Where no log names requests, the ranges that name them stand for the log.
CREATE TEMP TABLE _seen AS
SELECT q.source, coalesce(q.request_id, coalesce(f.path, q.file_id::VARCHAR) || '#' || q.event_index) AS request_id,
    q.process_id, q.model, q.status, q.arrival_ns, q.start_ns, q.first_token_ns, q.end_ns, q.prompt_tokens, q.output_tokens,
    q.clock_aligned, lower(coalesce(q.status, '')) AS said,
    lower(coalesce(json_extract_string(q.attributes, '$.finish_reason'), json_extract_string(q.attributes, '$.finished_reason'), '')) AS finish
FROM requests AS q LEFT JOIN capture_files AS f USING (file_id)
UNION ALL
SELECT 'ranges', request_id, process_id, NULL, NULL, NULL, start_ns, NULL, end_ns, NULL, NULL, true, '', ''
FROM request_spans WHERE range_id IS NOT NULL AND NOT EXISTS (FROM requests);

CREATE TEMP TABLE served_requests AS
SELECT
    source, request_id, process_id, status, clock_aligned,
    coalesce(model, (SELECT max(text_value) FROM capture_notes WHERE fact = 'capture' AND name = 'model'), '') AS model,
    coalesce(arrival_ns, start_ns, end_ns) AS at_ns, end_ns,
    CASE WHEN end_ns >= coalesce(arrival_ns, start_ns) THEN end_ns - coalesce(arrival_ns, start_ns) END AS latency_ns,
    CASE WHEN first_token_ns >= coalesce(arrival_ns, start_ns) THEN first_token_ns - coalesce(arrival_ns, start_ns) END AS first_token_after_ns,
    CASE WHEN start_ns >= arrival_ns THEN start_ns - arrival_ns END AS queue_ns,
    output_tokens,
    prompt_tokens + output_tokens <= getvariable('short_tokens') AS is_short,
    CASE WHEN said <> '' OR finish <> '' THEN
        len(list_filter(getvariable('error_statuses'), lambda wanted: said GLOB wanted OR finish GLOB wanted)) > 0 END AS is_error,
    CASE WHEN said <> '' OR finish <> '' THEN
        len(list_filter(getvariable('truncated_statuses'), lambda wanted: said GLOB wanted OR finish GLOB wanted)) > 0 END AS is_truncated
FROM _seen;
