-- The slowest profiled kernels, launches of one name and shape from one place together; the rest of a device is one row.
-- Figures are means over launches, weighed by their time.
CREATE TEMP TABLE _kept AS
SELECT coalesce(traced_process_id, process_id) AS process_id, device_index FROM profiled_launches GROUP BY ALL
ORDER BY sum(duration_ns) DESC NULLS LAST, process_id NULLS LAST, device_index NULLS LAST LIMIT getvariable('hotspot_places');

CREATE TEMP TABLE _grouped AS
SELECT k.process_id, k.device_index, base_name, min(name) AS name, grid, block, call_path_id, range_path,
    max(link_method) AS link_method, count(*)::HUGEINT AS call_count, sum(duration_ns) AS duration_ns, sum(traced_ns)::HUGEINT AS traced_ns,
    sum(compute * duration_ns) / nullif(sum(duration_ns) FILTER (compute IS NOT NULL), 0) / 100 AS compute_ratio,
    sum(memory * duration_ns) / nullif(sum(duration_ns) FILTER (memory IS NOT NULL), 0) / 100 AS memory_ratio,
    sum(occupancy * duration_ns) / nullif(sum(duration_ns) FILTER (occupancy IS NOT NULL), 0) / 100 AS occupancy_ratio
FROM profiled_launches AS p
LEFT JOIN _kept AS k
    ON k.process_id IS NOT DISTINCT FROM coalesce(p.traced_process_id, p.process_id) AND k.device_index IS NOT DISTINCT FROM p.device_index
GROUP BY k.process_id, k.device_index, base_name, grid, block, call_path_id, range_path;

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (
    PARTITION BY process_id, device_index ORDER BY duration_ns DESC NULLS LAST, traced_ns DESC NULLS LAST, base_name, grid, block, call_path_id,
    range_path) AS place
FROM _grouped;

CREATE TEMP TABLE hot_profiled AS
SELECT row_number() OVER (ORDER BY process_id, device_index, place) AS number, process_id, device_index, base_name, name, grid, block, call_path_id,
    range_path, false AS is_other, link_method, call_count, duration_ns, traced_ns, compute_ratio, memory_ratio, occupancy_ratio
FROM _placed WHERE place <= getvariable('hotspot_rows')
UNION ALL
SELECT -row_number() OVER (ORDER BY process_id, device_index), process_id, device_index, NULL, NULL, NULL, NULL, NULL, NULL, true, NULL, sum(call_count),
    sum(duration_ns), sum(traced_ns), NULL, NULL, NULL
FROM _placed WHERE place > getvariable('hotspot_rows') GROUP BY process_id, device_index;
