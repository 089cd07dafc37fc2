-- KV blocks that hold what another block holds at that time, by the hash of their contents: at the highest point and at the
-- end, a file and process. A block's contents are those of its last alloc; where the log has hashes for ids (vLLM), each
-- alloc of a hash that is held already is another copy:
--   alloc 7 hash a, alloc 9 hash a   →   one copy;   free 7   →   none
CREATE TEMP TABLE _block_orders AS
SELECT file_id, count(sequence_number) = count(*) AS has_sequence, count(*) FILTER (kv_event = 'free') > 0 AS has_frees
FROM kv_block_events WHERE block_id IS NOT NULL GROUP BY file_id;

-- A log that never frees lets a block go with its last reference.
CREATE TEMP TABLE _named_blocks AS
SELECT e.file_id, e.process_id, e.block_id, CASE e.kv_event WHEN 'alloc' THEN 1 WHEN 'other' THEN 0 ELSE -1 END AS step, e.ts_ns, e.size_bytes,
    CASE WHEN o.has_sequence THEN e.sequence_number ELSE e.event_index END AS seq, e.event_index,
    coalesce(e.attributes ->> 'data_parallel_rank', '') || '/' || coalesce(e.attributes ->> 'medium', '') AS place,
    coalesce(e.attributes ->> 'block_hash', e.attributes ->> 'content_hash', e.attributes ->> 'prefix_hash', e.attributes ->> 'hash',
        CASE WHEN json_exists(e.attributes, '$.parent_block_hash') THEN e.block_id::VARCHAR END) AS content
FROM kv_block_events AS e JOIN _block_orders AS o USING (file_id)
WHERE e.kv_event = 'alloc' OR (e.kv_event = 'free' AND o.has_frees) OR (e.kv_event = 'unref' AND e.reference_count = 0 AND NOT o.has_frees)
    OR (e.kv_event = 'other' AND e.attributes ->> 'event' = 'AllBlocksCleared');

CREATE TEMP TABLE _block_contents AS
SELECT *, last_value(content IGNORE NULLS) OVER (
        PARTITION BY file_id, process_id, place, block_id ORDER BY seq, event_index ROWS UNBOUNDED PRECEDING) AS contents
FROM (
    SELECT *, count(*) FILTER (step = 0) OVER (
            PARTITION BY file_id, process_id ORDER BY seq, event_index ROWS UNBOUNDED PRECEDING) AS clearing
    FROM _named_blocks
)
WHERE step <> 0;

CREATE TEMP TABLE _copy_changes AS
SELECT file_id, process_id, clearing, ts_ns, seq, event_index, contents, size_bytes,
    CASE WHEN step = 1 AND held_count >= 2 THEN 1 WHEN step = -1 AND held_count >= 1 THEN -1 ELSE 0 END AS change
FROM (
    SELECT *, sum(step) OVER (
            PARTITION BY file_id, process_id, place, clearing, contents ORDER BY seq, event_index ROWS UNBOUNDED PRECEDING
        ) AS held_count
    FROM _block_contents WHERE contents IS NOT NULL
);

CREATE TEMP TABLE _copies AS
SELECT *, sum(change) OVER (PARTITION BY file_id, process_id, clearing ORDER BY seq, event_index ROWS UNBOUNDED PRECEDING) AS copy_count
FROM _copy_changes;

CREATE TEMP TABLE block_copies AS
SELECT file_id, process_id, max(copy_count) AS peak_count, arg_max(ts_ns, (copy_count, -event_index)) AS peak_ns,
    arg_max(copy_count, (clearing, seq, event_index)) AS end_count, count(DISTINCT contents) AS content_count,
    count(DISTINCT contents) FILTER (change = 1) AS copied_content_count, max(size_bytes) AS block_bytes
FROM _copies GROUP BY file_id, process_id;
