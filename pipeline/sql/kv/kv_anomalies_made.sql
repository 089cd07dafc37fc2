-- What broke the life of a KV block: unallocated → bound (references above zero) → released.
--
-- | anomaly        | event       | when                                                                          |
-- | underflow      | unref       | no reference was left, or the producer itself counts below zero                 |
-- | double_free    | free        | the block had been given back already                                           |
-- | use_after_free | ref, write, read | after its free                                                             |
-- | out_of_bounds  | write, read | it reaches beyond the block's bytes                                              |
-- | unpaired       | free, alloc | references remain at the free, or the block is handed out again without one      |
-- | dangling       | –           | its request ended and still holds references when the log ends                   |
--
-- A log without references (a prefix cache's stored and removed) pairs allocs with frees only: nothing is unpaired there.
-- A block seen before its first alloc was bound before the log began: its count is not known and not judged.
CREATE TEMP TABLE _kv_orders AS
SELECT file_id, count(sequence_number) = count(*) AS has_sequence,
    count(*) FILTER (kv_event IN ('ref', 'unref')) > 0 AS counts_references
FROM kv_block_events WHERE block_id IS NOT NULL GROUP BY file_id;

CREATE TEMP TABLE _kv_events AS
SELECT
    e.file_id, e.event_index, e.process_id, e.block_id, e.request_id, e.thread_id, e.kv_event, e.ts_ns, e.reference_count,
    e.size_bytes, e.address, e.attributes, o.counts_references,
    CASE WHEN o.has_sequence THEN e.sequence_number ELSE e.event_index END AS place,
    CASE e.kv_event WHEN 'alloc' THEN greatest(coalesce(e.reference_count, 1), 1) WHEN 'ref' THEN 1 WHEN 'unref' THEN -1 ELSE 0 END AS step
FROM kv_block_events AS e JOIN _kv_orders AS o USING (file_id)
WHERE e.block_id IS NOT NULL;

-- Lives of a block are numbered by its allocs, 0 is the one from before the log.
CREATE TEMP TABLE _kv_lives AS
SELECT *, count(*) FILTER (kv_event = 'alloc') OVER (PARTITION BY file_id, block_id ORDER BY place, event_index) AS life
FROM _kv_events;

CREATE TEMP TABLE _kv_steps AS
SELECT *,
    sum(step) OVER so_far AS count_after,
    sum(step) OVER so_far - step AS count_before,
    count(*) FILTER (kv_event = 'free') OVER so_far - (kv_event = 'free')::INTEGER AS frees_before,
    first_value(size_bytes) OVER so_far AS block_bytes,
    first_value(address) OVER so_far AS block_address,
    try_cast(attributes ->> '$.offset' AS BIGINT) AS offset_bytes
FROM _kv_lives
WINDOW so_far AS (PARTITION BY file_id, block_id, life ORDER BY place, event_index);

CREATE TEMP TABLE _kv_life_ends AS
SELECT file_id, block_id, life, sum(step) AS count_at_end, count(*) FILTER (kv_event = 'free') AS frees
FROM _kv_lives GROUP BY file_id, block_id, life;

CREATE TEMP TABLE _kv_wrong_steps AS
SELECT s.*,
    CASE
        WHEN s.kv_event = 'unref' AND (s.reference_count < 0 OR (s.life > 0 AND s.count_after < 0)) THEN 'underflow'
        WHEN s.life = 0 THEN NULL
        WHEN s.kv_event = 'free' AND s.frees_before > 0 THEN 'double_free'
        WHEN s.kv_event IN ('ref', 'write', 'read') AND s.frees_before > 0 THEN 'use_after_free'
        WHEN s.kv_event IN ('write', 'read')
            AND coalesce(s.offset_bytes, (s.address::HUGEINT - s.block_address)::BIGINT, 0) NOT BETWEEN 0 AND s.block_bytes - s.size_bytes
            THEN 'out_of_bounds'
        WHEN NOT s.counts_references THEN NULL
        WHEN s.kv_event = 'free' AND s.count_before > 0 THEN 'unpaired'
        WHEN s.kv_event = 'alloc' AND p.frees = 0 AND p.count_at_end > 0 THEN 'unpaired'
    END AS anomaly,
    p.count_at_end AS left_before
FROM _kv_steps AS s
LEFT JOIN _kv_life_ends AS p ON p.file_id = s.file_id AND p.block_id = s.block_id AND p.life = s.life - 1 AND p.life > 0;

CREATE TEMP TABLE _kv_request_ends AS
SELECT request_id, max(end_ns) AS end_ns FROM (
    SELECT request_id, ts_ns AS end_ns FROM kv_block_events WHERE kv_event = 'request_end' AND request_id IS NOT NULL
    UNION ALL
    SELECT request_id, end_ns FROM requests WHERE end_ns IS NOT NULL AND request_id IS NOT NULL
)
GROUP BY request_id;

CREATE TEMP TABLE _kv_held AS
SELECT l.file_id, l.block_id, l.life, l.request_id, any_value(l.process_id) AS process_id, sum(l.step) AS held,
    min(l.event_index) AS event_index, any_value(l.size_bytes) AS size_bytes, count(DISTINCT l.thread_id) AS thread_count
FROM _kv_lives AS l JOIN _kv_life_ends AS e USING (file_id, block_id, life)
WHERE l.life > 0 AND e.frees = 0 AND e.count_at_end > 0 AND l.request_id IS NOT NULL
    AND l.life = (SELECT max(n.life) FROM _kv_life_ends AS n WHERE n.file_id = l.file_id AND n.block_id = l.block_id)
GROUP BY l.file_id, l.block_id, l.life, l.request_id
HAVING sum(l.step) > 0;

CREATE TEMP TABLE kv_anomalies_made AS
SELECT row_number() OVER (ORDER BY ts_ns NULLS LAST, file_id, event_index, anomaly) - 1 AS anomaly_id, * FROM (
    SELECT anomaly, process_id, block_id, request_id, ts_ns, size_bytes, file_id, event_index,
        CASE anomaly
            WHEN 'underflow' THEN format('reference count {} after the decrement', coalesce(reference_count, count_after))
            WHEN 'double_free' THEN 'given back a second time'
            WHEN 'use_after_free' THEN format('{} after the block was given back', kv_event)
            WHEN 'out_of_bounds' THEN format('{} of {} bytes at offset {} of a block of {} bytes', kv_event, size_bytes,
                coalesce(offset_bytes, (address::HUGEINT - block_address)::BIGINT, 0), block_bytes)
            WHEN 'unpaired' THEN CASE WHEN kv_event = 'free'
                THEN format('given back while {} references remain', count_before)
                ELSE format('handed out again while {} references remain and no free was seen', left_before) END
        END AS detail
    FROM _kv_wrong_steps WHERE anomaly IS NOT NULL
    UNION ALL
    SELECT 'dangling', h.process_id, h.block_id, h.request_id, r.end_ns, h.size_bytes, h.file_id, h.event_index,
        format('{} references of the ended request remain', h.held)
            || CASE WHEN h.thread_count > 1 THEN format(', counted by {} threads', h.thread_count) ELSE '' END
    FROM _kv_held AS h JOIN _kv_request_ends AS r USING (request_id)
);
