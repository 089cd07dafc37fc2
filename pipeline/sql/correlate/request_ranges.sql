-- Ranges that are requests, with the request's id: those called `request:<id>`. Where log and range write the id
-- differently (`req-17` and `request:17`), it is the log's when its number and its time agree and no other request's do.
CREATE TEMP TABLE _named AS
SELECT
    range_id, process_id, start_ns, end_ns,
    nullif(regexp_extract(name, '^(?:request|req)[^0-9A-Za-z]+(.+)$', 1), '') AS request_id
FROM ranges
WHERE clock_aligned AND coalesce(range_kind, '') NOT IN ('operator', 'python', 'gpu');

CREATE TEMP TABLE _ranged AS
SELECT process_id, request_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM _named WHERE request_id IS NOT NULL
GROUP BY process_id, request_id;

CREATE TEMP TABLE _logged AS
SELECT request_id, process_id, coalesce(start_ns, arrival_ns) AS begin_ns, end_ns FROM requests
WHERE clock_aligned AND request_id IS NOT NULL;

CREATE OR REPLACE TEMP MACRO _number(id) AS CASE
    WHEN regexp_matches(id, '^(?:.*[^0-9A-Za-z]|[A-Za-z]+)?[0-9]+$') THEN ltrim(regexp_extract(id, '([0-9]+)$', 1), '0')
END;

CREATE TEMP TABLE _aliases AS
SELECT r.process_id, r.request_id, any_value(l.request_id) AS logged_id
FROM _ranged AS r
JOIN _logged AS l
    ON _number(l.request_id) = _number(r.request_id) AND l.begin_ns <= r.end_ns
    AND coalesce(l.end_ns, l.begin_ns) >= r.start_ns
    AND (r.process_id = l.process_id OR l.process_id IS NULL OR r.process_id IS NULL)
WHERE
    r.request_id NOT IN (SELECT request_id FROM _logged)
    AND l.request_id NOT IN (SELECT request_id FROM _ranged)
GROUP BY r.process_id, r.request_id
HAVING count(DISTINCT l.request_id) = 1;

CREATE TEMP TABLE request_ranges AS
SELECT r.* REPLACE (coalesce(a.logged_id, r.request_id) AS request_id)
FROM _named AS r
LEFT JOIN _aliases AS a ON a.request_id = r.request_id AND a.process_id IS NOT DISTINCT FROM r.process_id
WHERE r.request_id IS NOT NULL;
