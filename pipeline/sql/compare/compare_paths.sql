-- Each call path with what it allocated, what of it lived at the end and at the peak, and for how long the rest lived.
CREATE TEMP TABLE _marked AS
SELECT a.level, a.memory_kind, r.rank, n.path_key, a.allocated_bytes AS bytes, a.free_ts_ns IS NULL AS is_live,
    NOT a.is_alloc_before_window AS is_new, a.free_ts_ns - a.alloc_ts_ns AS lifetime_ns, a.is_free_inferred,
    p.seen_ts_ns IS NOT NULL AND coalesce(a.alloc_ts_ns, p.seen_ts_ns) <= p.seen_ts_ns
        AND (a.free_ts_ns IS NULL OR a.free_ts_ns > p.seen_ts_ns) AS is_at_peak
FROM allocations AS a
LEFT JOIN compare_peaks AS p ON p.process_id IS NOT DISTINCT FROM a.process_id
    AND p.device_index IS NOT DISTINCT FROM a.device_index AND p.level = a.level
LEFT JOIN compare_path_names AS n ON n.call_path_id = a.alloc_call_path_id
LEFT JOIN compare_ranks AS r ON r.process_id = a.process_id
WHERE a.allocated_bytes IS NOT NULL;

CREATE TEMP TABLE _summed AS
SELECT level, memory_kind, rank, path_key,
    coalesce(sum(bytes) FILTER (is_live), 0)::BIGINT AS end_bytes, count(*) FILTER (is_live) AS end_count,
    coalesce(sum(bytes) FILTER (is_at_peak), 0)::BIGINT AS peak_bytes, count(*) FILTER (is_at_peak) AS peak_count,
    coalesce(sum(bytes) FILTER (is_new), 0)::BIGINT AS allocated_bytes, count(*) FILTER (is_new) AS allocated_count,
    count(lifetime_ns) FILTER (NOT is_free_inferred) AS lifetime_count,
    quantile_cont(lifetime_ns, [0.5, 0.95]) FILTER (NOT is_free_inferred) AS lifetimes
FROM _marked GROUP BY ALL;

CREATE TEMP TABLE compare_paths AS
SELECT s.*, f.frames,
    row_number() OVER (ORDER BY greatest(s.end_bytes, s.peak_bytes) DESC, s.allocated_bytes DESC, s.level, s.memory_kind, s.rank, f.frames) AS place
FROM _summed AS s
LEFT JOIN (SELECT path_key, min(frames) AS frames FROM compare_path_names GROUP BY path_key) AS f USING (path_key);
