-- Kernel objects, pages and heap blocks from alloc to free, one row a life of an address.
--
-- | event | previous at the address | means                                                 |
-- | alloc | anything                | a new life; if the last one is open its free was lost |
-- | free  | free or nothing         | a life that began before the window                   |
-- What lives at the end of a recording that another one follows after a gap counts as ended there: nobody knows.
CREATE TEMP TABLE _host_owners AS
SELECT process_id, memory_kind, recording, row_number() OVER (ORDER BY process_id, memory_kind, recording) AS owner,
    max(last_ns) AS end_ns,
    lead(recording) OVER (PARTITION BY process_id, memory_kind ORDER BY recording) IS NOT NULL AS is_followed
FROM host_files WHERE is_used GROUP BY process_id, memory_kind, recording;

CREATE TEMP TABLE _host_files_owned AS
SELECT f.file_id, f.process_id, f.memory_kind, o.owner, row_number() OVER (ORDER BY f.first_ns, f.file_id) AS place
FROM host_files AS f JOIN _host_owners AS o USING (process_id, memory_kind, recording) WHERE f.is_used;

CREATE TEMP TABLE _host_events AS
SELECT
    *, lag(is_alloc) OVER events AS alloc_before, lead(is_alloc) OVER events AS is_alloc_next,
    lead(ts_ns) OVER events AS next_ts_ns, lead(call_path_id) OVER events AS next_path
FROM (
    SELECT f.owner, f.place, e.address, e.ts_ns, e.event_index, e.size_bytes, e.requested_bytes, e.call_path_id, e.source,
        e.action = 'alloc' AS is_alloc
    FROM memory_events AS e
    JOIN _host_files_owned AS f
        ON f.file_id = e.file_id AND f.process_id = e.process_id AND f.memory_kind = e.memory_kind
    WHERE e.level = 'host' AND e.action IN ('alloc', 'free') AND e.address IS NOT NULL AND e.address <> 0
        AND e.ts_ns IS NOT NULL
)
WINDOW events AS (PARTITION BY address, owner ORDER BY ts_ns, place, event_index);

CREATE TEMP TABLE host_lives AS
SELECT
    o.process_id, o.memory_kind, e.source, e.address,
    row_number() OVER (
        PARTITION BY e.address, o.process_id, o.memory_kind ORDER BY o.recording, e.ts_ns, e.place, e.event_index
    ) - 1 AS generation,
    e.size_bytes AS allocated_bytes, CASE WHEN e.is_alloc THEN e.requested_bytes END AS requested_bytes,
    CASE WHEN e.is_alloc THEN e.ts_ns END AS alloc_ts_ns,
    CASE
        WHEN NOT e.is_alloc THEN e.ts_ns
        WHEN e.is_alloc_next IS NOT NULL THEN e.next_ts_ns
        WHEN o.is_followed THEN o.end_ns
    END AS free_ts_ns,
    NOT e.is_alloc AS is_alloc_before_window,
    e.is_alloc AND coalesce(e.is_alloc_next, o.is_followed) AS is_free_inferred,
    CASE WHEN e.is_alloc THEN e.call_path_id END AS alloc_call_path_id,
    CASE WHEN NOT e.is_alloc THEN e.call_path_id WHEN NOT e.is_alloc_next THEN e.next_path END AS free_call_path_id
FROM _host_events AS e JOIN _host_owners AS o USING (owner)
WHERE e.is_alloc OR NOT coalesce(e.alloc_before, false);
