-- Survivors of a suspect by the epoch or request that they come from, with the totals over all of them.
WITH _names AS (
    SELECT epoch_index, min(left(epoch_name, 200)) AS epoch_name FROM epochs
    WHERE process_id IS NOT DISTINCT FROM $process_id GROUP BY epoch_index
),
_holders AS (
    SELECT request_id, epoch_index, count(*) AS n, coalesce(sum(allocated_bytes), 0) AS bytes
    FROM leak_evidence WHERE suspect_id = $suspect_id GROUP BY ALL
)
SELECT h.request_id, h.epoch_index, p.epoch_name, h.n, h.bytes::BIGINT AS bytes, count(*) OVER () AS holders,
       (sum(h.n) OVER ())::BIGINT AS all_n, (sum(h.bytes) OVER ())::BIGINT AS all_bytes
FROM _holders h LEFT JOIN _names p USING (epoch_index)
ORDER BY h.epoch_index NULLS LAST, h.request_id NULLS LAST LIMIT $limit
