-- From each token of a request to its next one: the time, and what memory grew by. Where requests take turns, the growth is
-- shared among the tokens of the process in between, and left out where another request began or ended meanwhile: its
-- prompt's cache came or went. Times of one file are on one clock, so that intervals hold whether or not it was aligned.
CREATE TEMP TABLE _placed AS
SELECT file_id, event_index, process_id, request_id, token_index, ts_ns, rss_bytes, device_allocated_bytes,
    row_number() OVER process AS place,
    row_number() OVER request = 1 AS is_first,
    lead(ts_ns) OVER request IS NULL AS is_last
FROM tokens WHERE request_id IS NOT NULL AND ts_ns IS NOT NULL
WINDOW process AS (PARTITION BY file_id, process_id ORDER BY ts_ns, event_index),
    request AS (PARTITION BY file_id, process_id, request_id ORDER BY ts_ns, event_index);

CREATE TEMP TABLE _counted AS
SELECT *, sum(is_first::INTEGER) OVER process AS begun, sum(is_last::INTEGER) OVER process - is_last::INTEGER AS ended FROM _placed
WINDOW process AS (PARTITION BY file_id, process_id ORDER BY place);

CREATE TEMP TABLE _named AS
SELECT t.file_id, t.process_id, t.request_id, r.model, r.prompt_tokens
FROM (SELECT DISTINCT file_id, process_id, request_id FROM _placed) AS t
JOIN requests AS r ON r.request_id = t.request_id AND (r.process_id = t.process_id OR r.process_id IS NULL OR t.process_id IS NULL)
QUALIFY row_number() OVER (PARTITION BY t.file_id, t.process_id, t.request_id ORDER BY r.model IS NULL, r.prompt_tokens IS NULL, r.file_id, r.event_index) = 1;

CREATE TEMP TABLE token_steps AS
SELECT c.file_id, c.process_id, c.request_id, c.token_index, c.place, c.ts_ns, c.is_first, c.rss_bytes, c.device_allocated_bytes, n.prompt_tokens,
    coalesce(n.model, (SELECT max(text_value) FROM capture_notes WHERE fact = 'capture' AND name = 'model'), '') AS model,
    CASE WHEN c.is_next THEN c.ts_ns - c.before_ns END AS interval_ns,
    CASE WHEN c.is_next AND c.is_alone THEN (c.device_allocated_bytes - c.before_device) / c.shared END AS device_growth,
    CASE WHEN c.is_next AND c.is_alone THEN (c.rss_bytes - c.before_rss) / c.shared END AS rss_growth
FROM (
    SELECT *, place - lag(place) OVER request AS shared, lag(ts_ns) OVER request AS before_ns,
        lag(rss_bytes) OVER request AS before_rss, lag(device_allocated_bytes) OVER request AS before_device,
        coalesce(token_index = lag(token_index) OVER request + 1, NOT is_first AND token_index IS NULL) AS is_next,
        begun = lag(begun) OVER request AND ended = lag(ended) OVER request AS is_alone
    FROM _counted
    WINDOW request AS (PARTITION BY file_id, process_id, request_id ORDER BY place)
) AS c
LEFT JOIN _named AS n ON n.file_id = c.file_id AND n.process_id IS NOT DISTINCT FROM c.process_id AND n.request_id = c.request_id;
