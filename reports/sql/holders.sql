-- Survivors of a suspect by the epoch or request that they come from, with the totals over all of them.
WITH _epochs AS (
    SELECT epoch_index, min(left(epoch_name, 200)) AS epoch_name, min(request_id) AS request_id FROM epochs
    WHERE process_id IS NOT DISTINCT FROM $process_id GROUP BY epoch_index
),
_holders AS (
    SELECT coalesce(e.request_id, p.request_id) AS request_id, e.epoch_index, min(p.epoch_name) AS epoch_name,
           count(*) AS n, coalesce(sum(e.allocated_bytes), 0) AS bytes
    FROM leak_evidence e LEFT JOIN _epochs p USING (epoch_index)
    WHERE e.suspect_id = $suspect_id GROUP BY ALL
)
SELECT h.request_id, h.epoch_index, h.epoch_name, h.n, h.bytes::BIGINT AS bytes, count(*) OVER () AS holders,
       (sum(h.n) OVER ())::BIGINT AS all_n, (sum(h.bytes) OVER ())::BIGINT AS all_bytes
FROM _holders h
ORDER BY h.epoch_index NULLS LAST, h.request_id NULLS LAST LIMIT $limit
