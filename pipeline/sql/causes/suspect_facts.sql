-- What the survivors of each judged group are besides their sizes: in which pool they lie and whose requests they were.
CREATE TEMP TABLE _survivor_facts AS
SELECT e.suspect_id, e.request_id, a.process_id, a.allocated_bytes, a.pool_id
FROM leak_evidence_made AS e JOIN allocations AS a USING (allocation_id)
WHERE a.level = 'tensor';

CREATE TEMP TABLE _survivor_requests AS
SELECT suspect_id, count(*) AS request_count, count(*) FILTER (is_ended) AS ended_count
FROM (
    SELECT s.suspect_id, s.request_id, bool_or(r.end_ns IS NOT NULL) AS is_ended
    FROM (SELECT DISTINCT suspect_id, request_id, process_id FROM _survivor_facts WHERE request_id IS NOT NULL) AS s
    JOIN request_spans AS r ON r.request_id = s.request_id AND (r.process_id = s.process_id OR r.process_id IS NULL)
    GROUP BY s.suspect_id, s.request_id
)
GROUP BY suspect_id;

CREATE TEMP TABLE suspect_facts AS
SELECT s.suspect_id, s.private_bytes, s.pool_count, coalesce(r.request_count, 0) AS request_count,
    coalesce(r.ended_count, 0) AS ended_count
FROM (
    SELECT suspect_id, coalesce(sum(allocated_bytes) FILTER (pool_id <> '0,0'), 0)::BIGINT AS private_bytes,
        count(DISTINCT pool_id) FILTER (pool_id <> '0,0') AS pool_count
    FROM _survivor_facts GROUP BY suspect_id
) AS s LEFT JOIN _survivor_requests AS r USING (suspect_id);
