-- From each token of a request to its next one: the time, and what memory grew by. Where requests take turns, the growth is
-- shared among the tokens of the process in between, and left out where another request began or ended meanwhile: its
-- prompt's cache came or went. Times of one file are on one clock, so that intervals hold whether or not it was aligned.
CREATE TEMP TABLE _requests AS
SELECT row_number() OVER (ORDER BY file_id, process_id, request_id) AS request_number, * FROM (
    SELECT DISTINCT file_id, process_id, request_id FROM tokens WHERE request_id IS NOT NULL AND ts_ns IS NOT NULL
);

CREATE TEMP TABLE _named AS
SELECT t.request_number, r.model, r.prompt_tokens
FROM _requests AS t
JOIN requests AS r ON r.request_id = t.request_id AND (r.process_id = t.process_id OR r.process_id IS NULL OR t.process_id IS NULL)
QUALIFY row_number() OVER (PARTITION BY t.request_number ORDER BY r.model IS NULL, r.prompt_tokens IS NULL, r.file_id, r.event_index) = 1;

CREATE TEMP TABLE _placed AS
SELECT t.file_id, t.process_id, q.request_number, t.token_index, t.ts_ns, t.rss_bytes, t.device_allocated_bytes,
    row_number() OVER (PARTITION BY t.file_id, t.process_id ORDER BY t.ts_ns, t.event_index) AS place
FROM tokens AS t
JOIN _requests AS q ON q.file_id = t.file_id AND q.process_id IS NOT DISTINCT FROM t.process_id AND q.request_id = t.request_id
WHERE t.ts_ns IS NOT NULL;

CREATE TEMP TABLE _spans AS
SELECT request_number, min(place) AS first_place, max(place) AS last_place FROM _placed GROUP BY request_number;

CREATE TEMP TABLE _counted AS
SELECT p.*, p.place = s.first_place AS is_first,
    sum((p.place = s.first_place)::INTEGER) OVER process AS begun,
    sum((p.place = s.last_place)::INTEGER) OVER process - (p.place = s.last_place)::INTEGER AS ended
FROM _placed AS p JOIN _spans AS s USING (request_number)
WINDOW process AS (PARTITION BY p.file_id, p.process_id ORDER BY p.place);

CREATE TEMP TABLE token_steps AS
SELECT c.file_id, c.process_id, q.request_id, c.request_number, c.token_index, c.place, c.ts_ns, c.rss_bytes, c.device_allocated_bytes,
    n.prompt_tokens,
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
    WINDOW request AS (PARTITION BY request_number ORDER BY place)
) AS c
JOIN _requests AS q USING (request_number)
LEFT JOIN _named AS n USING (request_number);
