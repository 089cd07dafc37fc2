-- The moment at which host memory is judged, a process and kind, where its recording ends in a teardown: a stretch within
-- the last fifth of the recorded time in which there are at least 4 frees to every allocation, counted from its beginning
-- on, and which gives back a quarter of what lived then. A process that exits gives back everything, leaks too.
CREATE TEMP TABLE _host_changes AS
SELECT process_id, memory_kind, alloc_ts_ns AS ts_ns, -4 AS score FROM allocations
WHERE level = 'host' AND memory_kind IN ('slab', 'page', 'heap') AND alloc_ts_ns IS NOT NULL
UNION ALL
SELECT process_id, memory_kind, free_ts_ns, 1 FROM allocations
WHERE level = 'host' AND memory_kind IN ('slab', 'page', 'heap') AND free_ts_ns IS NOT NULL AND NOT is_free_inferred;

CREATE TEMP TABLE _best_ends AS
SELECT process_id, memory_kind, first_ns, last_ns, arg_max(ts_ns, (total, -ts_ns)) AS judged_until_ns, max(total) AS total
FROM (
    SELECT process_id, memory_kind, ts_ns,
        min(ts_ns) OVER (PARTITION BY process_id, memory_kind) AS first_ns,
        max(ts_ns) OVER (PARTITION BY process_id, memory_kind) AS last_ns,
        sum(score) OVER (PARTITION BY process_id, memory_kind ORDER BY ts_ns DESC RANGE UNBOUNDED PRECEDING) AS total
    FROM _host_changes
)
WHERE (last_ns - ts_ns)::HUGEINT * 5 <= last_ns - first_ns
GROUP BY process_id, memory_kind, first_ns, last_ns
HAVING max(total) > 0;

CREATE TEMP TABLE host_ends AS
SELECT process_id, memory_kind, judged_until_ns, last_ns, live_count, freed_count
FROM (
    SELECT e.process_id, e.memory_kind, e.first_ns, e.last_ns, e.judged_until_ns,
        count(*) AS live_count, count(a.free_ts_ns) FILTER (NOT a.is_free_inferred) AS freed_count
    FROM _best_ends AS e
    JOIN allocations AS a ON a.process_id = e.process_id AND a.memory_kind = e.memory_kind AND a.level = 'host'
        AND a.alloc_ts_ns < e.judged_until_ns AND (a.free_ts_ns IS NULL OR a.free_ts_ns >= e.judged_until_ns)
    GROUP BY ALL
)
WHERE freed_count * 4 >= live_count AND freed_count >= 8;
