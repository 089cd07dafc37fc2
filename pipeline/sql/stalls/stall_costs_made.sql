-- What stalls cost, by kind, call, call path and range, and one row a kind (`is_total`). `union_ns` counts time in which several
-- threads stall once, so that its share of `window_ns` is at most 1; `hot_ns` is the part of it inside the regular work.
CREATE TEMP TABLE _windows AS
SELECT CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id, process_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
FROM (
    SELECT process_id, file_id, clock_aligned, start_ns, end_ns FROM sync_stalls_made
    UNION ALL SELECT process_id, file_id, clock_id = -1, first_ns, last_ns FROM call_files
)
GROUP BY clock_id, process_id;

CREATE TEMP TABLE _ended AS
SELECT s.stall_kind, s.name, s.process_id, s.start_ns, s.end_ns, s.duration_ns, s.is_hot, s.size_bytes, s.launch_count,
    s.pending_free_bytes, s.call_path_id, s.range_path, CASE WHEN s.clock_aligned THEN -1 ELSE s.file_id END AS clock_id,
    greatest(s.start_ns, h.start_ns) AS hot_start_ns, least(s.end_ns, h.end_ns) AS hot_end_ns, h.hot_by,
    h.end_ns - h.start_ns AS hot_window_ns
FROM sync_stalls_made AS s
LEFT JOIN hot_windows AS h ON h.process_id IS NOT DISTINCT FROM s.process_id
    AND h.clock_id = CASE WHEN s.clock_aligned THEN -1 ELSE s.file_id END
WHERE s.end_ns IS NOT NULL;

-- What each stall adds to the time that earlier ones of its kind, or of its group, have covered.
CREATE TEMP TABLE _added AS
SELECT *,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER kind, start_ns))) AS kind_ns,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER alike, start_ns))) AS alike_ns,
    greatest(0, hot_end_ns - greatest(hot_start_ns, coalesce(max(hot_end_ns) OVER kind, hot_start_ns))) AS kind_hot_ns,
    greatest(0, hot_end_ns - greatest(hot_start_ns, coalesce(max(hot_end_ns) OVER alike, hot_start_ns))) AS alike_hot_ns
FROM _ended
WINDOW kind AS (PARTITION BY clock_id, process_id, stall_kind ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    alike AS (PARTITION BY clock_id, process_id, stall_kind, name, call_path_id, range_path
        ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);

CREATE TEMP TABLE _costs AS
SELECT clock_id, process_id, stall_kind, name, call_path_id, range_path, grouping(name) = 1 AS is_total,
    count(*) AS stall_count, sum(duration_ns)::BIGINT AS total_ns,
    (CASE WHEN grouping(name) = 1 THEN sum(kind_ns) ELSE sum(alike_ns) END)::BIGINT AS union_ns,
    quantile_cont(duration_ns, 0.5)::BIGINT AS p50_ns, max(duration_ns) AS max_ns,
    count(*) FILTER (is_hot) AS hot_count,
    (CASE WHEN grouping(name) = 1 THEN sum(kind_hot_ns) ELSE sum(alike_hot_ns) END)::BIGINT AS hot_ns,
    quantile_cont(duration_ns, 0.5) FILTER (is_hot)::BIGINT AS hot_p50_ns, max(duration_ns) FILTER (is_hot) AS hot_max_ns,
    any_value(hot_by) AS hot_by, any_value(hot_window_ns) AS hot_window_ns,
    sum(size_bytes)::BIGINT AS size_bytes, sum(launch_count)::BIGINT AS launch_count, max(pending_free_bytes) AS pending_free_bytes
FROM _added
GROUP BY GROUPING SETS ((clock_id, process_id, stall_kind), (clock_id, process_id, stall_kind, name, call_path_id, range_path));

CREATE TEMP TABLE stall_costs_made AS
SELECT row_number() OVER (
        ORDER BY c.process_id NULLS FIRST, c.clock_id, c.stall_kind, NOT c.is_total, c.total_ns DESC, c.name, c.call_path_id, c.range_path
    ) - 1 AS cost_id,
    c.* EXCLUDE (clock_id, hot_count, hot_ns), w.last_ns - w.first_ns AS window_ns,
    CASE WHEN c.hot_by IS NOT NULL THEN c.hot_count END AS hot_count,
    CASE WHEN c.hot_by IS NOT NULL THEN coalesce(c.hot_ns, 0) END AS hot_ns
FROM _costs AS c
LEFT JOIN _windows AS w ON w.clock_id = c.clock_id AND w.process_id IS NOT DISTINCT FROM c.process_id;
