-- The slowest profiled kernels, launches of one name and shape from one place together; the rest of a process is one row.
-- Figures are means over launches, weighed by their time.
CREATE TEMP TABLE _grouped AS
SELECT coalesce(traced_process_id, process_id) AS process_id, device_index, base_name, min(name) AS name, grid, block, call_path_id, range_path,
    max(link_method) AS link_method, count(*)::HUGEINT AS call_count, sum(duration_ns) AS duration_ns, sum(traced_ns)::HUGEINT AS traced_ns,
    sum(compute * duration_ns) / nullif(sum(duration_ns) FILTER (compute IS NOT NULL), 0) / 100 AS compute_ratio,
    sum(memory * duration_ns) / nullif(sum(duration_ns) FILTER (memory IS NOT NULL), 0) / 100 AS memory_ratio,
    sum(occupancy * duration_ns) / nullif(sum(duration_ns) FILTER (occupancy IS NOT NULL), 0) / 100 AS occupancy_ratio
FROM profiled_launches
GROUP BY coalesce(traced_process_id, process_id), device_index, base_name, grid, block, call_path_id, range_path;

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (
    PARTITION BY process_id ORDER BY duration_ns DESC NULLS LAST, traced_ns DESC NULLS LAST, base_name, grid, block, call_path_id,
    range_path) AS place
FROM _grouped
QUALIFY dense_rank() OVER (ORDER BY process_id NULLS LAST) <= getvariable('hotspot_places');

CREATE TEMP TABLE hot_profiled AS
SELECT row_number() OVER (ORDER BY process_id, place) AS number, process_id, device_index, base_name, name, grid, block, call_path_id,
    range_path, false AS is_other, link_method, call_count, duration_ns, traced_ns, compute_ratio, memory_ratio, occupancy_ratio
FROM _placed WHERE place <= getvariable('hotspot_rows')
UNION ALL
SELECT -row_number() OVER (ORDER BY process_id), process_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, sum(call_count),
    sum(duration_ns), sum(traced_ns), NULL, NULL, NULL
FROM _placed WHERE place > getvariable('hotspot_rows') GROUP BY process_id;
