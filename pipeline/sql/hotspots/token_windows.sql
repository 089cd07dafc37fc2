-- From each token of a request to its next one, on the capture's clock: of the longest requests, thinned. Times
-- in which two requests of a process both wait for a token are left out: what is called then belongs to either.
CREATE TEMP TABLE _waits AS
SELECT s.process_id, s.request_number, coalesce(s.token_index, s.place) AS position, s.ts_ns - s.interval_ns AS start_ns, s.ts_ns AS end_ns
FROM token_steps AS s
JOIN clock_alignments AS a ON a.file_id = s.file_id AND a.clock_aligned
WHERE s.interval_ns > 0 AND s.process_id IS NOT NULL;

CREATE TEMP TABLE _alone AS
SELECT * FROM _waits
QUALIFY coalesce(max(end_ns) OVER (
        PARTITION BY process_id ORDER BY start_ns, end_ns, request_number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= start_ns, true)
    AND coalesce(lead(start_ns) OVER (PARTITION BY process_id ORDER BY start_ns, end_ns, request_number) >= end_ns, true);

CREATE TEMP TABLE _longest AS
SELECT process_id, request_number, count(*) AS held FROM _alone GROUP BY process_id, request_number HAVING count(*) >= 6
QUALIFY row_number() OVER (PARTITION BY process_id ORDER BY count(*) DESC, request_number) <= 60;

CREATE TEMP TABLE token_windows AS
SELECT process_id, request_number, position, start_ns, end_ns FROM (
    SELECT a.*, l.held, row_number() OVER (PARTITION BY a.process_id, a.request_number ORDER BY a.position, a.start_ns) - 1 AS place
    FROM _alone AS a JOIN _longest AS l USING (process_id, request_number)
)
WHERE held <= 60 OR place * 60 // held > (place - 1) * 60 // held;
