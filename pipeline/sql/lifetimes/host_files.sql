-- Files that tell of host memory, a process and kind: which of them count, and to which recording they belong. Two files
-- of one time may tell of the same events (perf.data and its text, bpftrace beside perf): of files whose times overlap
-- the one with most events counts. A file on a clock of its own counts only where none is on the capture's clock.
-- Files that follow each other within a second are one recording.
CREATE TEMP TABLE _host_spans AS
SELECT process_id, memory_kind, file_id, bool_and(clock_aligned) AS is_aligned, count(*) AS event_count,
    min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
FROM memory_events
WHERE level = 'host' AND memory_kind IN ('slab', 'page', 'heap') AND action IN ('alloc', 'free') AND address IS NOT NULL
    AND address <> 0 AND process_id IS NOT NULL AND ts_ns IS NOT NULL
GROUP BY process_id, memory_kind, file_id;

CREATE TEMP TABLE _host_taken AS
SELECT s.*, NOT EXISTS (
    SELECT 1 FROM _host_spans AS o
    WHERE o.process_id = s.process_id AND o.memory_kind = s.memory_kind AND o.file_id <> s.file_id
        AND (o.is_aligned, o.event_count, -o.file_id) > (s.is_aligned, s.event_count, -s.file_id)
        AND (NOT s.is_aligned OR (o.first_ns <= s.last_ns AND s.first_ns <= o.last_ns))
) AS is_used
FROM _host_spans AS s;

CREATE TEMP TABLE host_files AS
SELECT * EXCLUDE (begins), sum(begins) OVER (
    PARTITION BY process_id, memory_kind, is_used ORDER BY first_ns, file_id) AS recording
FROM (
    SELECT *, CASE WHEN first_ns - lag(last_ns) OVER (
        PARTITION BY process_id, memory_kind, is_used ORDER BY first_ns, file_id) <= 1000000000 THEN 0 ELSE 1 END AS begins
    FROM _host_taken
);
