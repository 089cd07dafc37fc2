-- Launches that Nsight Compute profiled, one row each with its main figures, where it was launched in a trace, and how that
-- is known. Several files of one profile (report, raw and details page) tell of the same launches.
CREATE TEMP TABLE _figures AS
SELECT m.process_id, m.launch_index, m.device_index, b.base_name, m.grid, m.block, m.file_id, min(m.name) AS name,
    max(value) FILTER (metric = 'gpu__time_duration.sum') AS raw_ns,
    max(CASE m.unit WHEN 's' THEN 1e9 WHEN 'second' THEN 1e9 WHEN 'ms' THEN 1e6 WHEN 'us' THEN 1e3 ELSE 1 END * value)
        FILTER (metric IN ('gpu__time_duration.sum', 'gpu__time_duration.avg', 'Duration')) AS duration_ns,
    max(value) FILTER (metric IN ('sm__throughput.avg.pct_of_peak_sustained_elapsed', 'Compute (SM) Throughput', 'SM [%]')) AS compute,
    max(value) FILTER (metric IN ('gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed', 'Memory Throughput')
        AND coalesce(unit, '%') = '%') AS memory,
    max(value) FILTER (metric IN ('sm__warps_active.avg.pct_of_peak_sustained_active', 'Achieved Occupancy')) AS occupancy
FROM kernel_metrics AS m JOIN kernel_base_names AS b ON b.name = m.name
GROUP BY ALL;

CREATE TEMP TABLE _launches AS
SELECT f.process_id, f.device_index, f.launch_index, f.base_name, f.grid, f.block, arg_min(f.name, (f.raw_ns IS NULL, f.file_id)) AS name,
    arg_min(f.duration_ns, (f.raw_ns IS NULL, f.file_id)) AS duration_ns, arg_min(f.compute, (f.raw_ns IS NULL, f.file_id)) AS compute,
    arg_min(f.memory, (f.raw_ns IS NULL, f.file_id)) AS memory, arg_min(f.occupancy, (f.raw_ns IS NULL, f.file_id)) AS occupancy,
    arg_min({'file_id': k.gpu_op_file_id, 'event_index': k.gpu_op_event_index}, f.file_id)
        FILTER (k.gpu_op_event_index IS NOT NULL) AS traced,
    min(k.link_method) AS link_method
FROM _figures AS f
LEFT JOIN kernel_links AS k ON k.file_id = f.file_id AND k.launch_index = f.launch_index
GROUP BY f.process_id, f.device_index, f.launch_index, f.base_name, f.grid, f.block;

CREATE TEMP TABLE _traced AS
SELECT g.file_id, g.event_index, g.process_id, g.correlation_id, g.end_ns - g.start_ns AS traced_ns
FROM gpu_ops AS g
SEMI JOIN _launches AS l ON l.traced.file_id = g.file_id AND l.traced.event_index = g.event_index;

CREATE TEMP TABLE _calls AS
SELECT c.process_id, c.correlation_id, c.file_id, c.thread_id, c.start_ns, c.call_path_id, c.clock_aligned FROM api_calls AS c
SEMI JOIN _traced AS t ON t.process_id = c.process_id AND t.correlation_id = c.correlation_id
QUALIFY row_number() OVER (
    PARTITION BY c.process_id, c.correlation_id ORDER BY c.call_path_id IS NULL, c.start_ns, c.end_ns DESC, c.file_id, c.event_index) = 1;

CREATE TEMP TABLE _ranges AS
SELECT c.process_id, c.correlation_id, n.range_path, n.request_id
FROM _calls AS c
ASOF JOIN thread_timeline AS t
    ON t.process_id = c.process_id AND t.file_id = c.file_id AND t.thread_id = c.thread_id AND t.ts_ns <= c.start_ns
JOIN range_nesting AS n ON n.range_id = t.range_id
WHERE c.clock_aligned;

CREATE TEMP TABLE profiled_launches AS
SELECT l.process_id, l.device_index, l.launch_index, l.base_name, l.name, l.grid, l.block, l.duration_ns, l.compute, l.memory,
    l.occupancy, l.link_method, t.process_id AS traced_process_id, t.traced_ns, c.call_path_id, r.range_path
FROM _launches AS l
LEFT JOIN _traced AS t ON t.file_id = l.traced.file_id AND t.event_index = l.traced.event_index
LEFT JOIN _calls AS c ON c.process_id = t.process_id AND c.correlation_id = t.correlation_id
LEFT JOIN _ranges AS r ON r.process_id = t.process_id AND r.correlation_id = t.correlation_id;
