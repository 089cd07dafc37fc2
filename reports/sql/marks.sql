-- Epochs of a process in time order, $group neighbours a row, with what growing suspects keep of them.
WITH _kept AS (
    SELECT e.epoch_index, sum(e.allocated_bytes) AS bytes
    FROM leak_evidence e JOIN leak_suspects s USING (suspect_id)
    WHERE s.verdict = 'growing' AND s.process_id IS NOT DISTINCT FROM $process_id
    GROUP BY e.epoch_index
),
_status AS (
    SELECT request_id, min(status) AS status FROM request_spans
    WHERE process_id IS NULL OR process_id IS NOT DISTINCT FROM $process_id
    GROUP BY request_id
),
_epochs AS (
    SELECT e.*, coalesce(k.bytes, 0) AS bytes, s.status,
           (row_number() OVER (ORDER BY e.start_ns, e.epoch_index) - 1) // $group AS position
    FROM epochs e LEFT JOIN _kept k USING (epoch_index) LEFT JOIN _status s USING (request_id)
    WHERE e.process_id IS NOT DISTINCT FROM $process_id AND e.start_ns IS NOT NULL
)
SELECT position, min(start_ns) AS start_ns, max(coalesce(end_ns, start_ns)) AS end_ns,
       arg_min(left(coalesce(epoch_name, epoch_index::VARCHAR), 80), (start_ns, epoch_index)) AS first_name,
       arg_min(status, (start_ns, epoch_index)) AS status, count(*) AS n, sum(bytes)::BIGINT AS bytes
FROM _epochs GROUP BY position ORDER BY position
