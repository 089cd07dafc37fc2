-- The table `hotspots`: every kind of row with its share of its group, which is one kind and event of one process and device.
CREATE TEMP TABLE _all AS
SELECT hotspot_kind, source AS place, event, unit, process_id, device_index, NULL AS name, NULL AS file, NULL AS module, call_path_id,
    NULL AS range_path, is_other, call_count, self, total
FROM hot_paths
UNION ALL BY NAME
SELECT hotspot_kind, source AS place, event, unit, process_id, device_index, name, file, module, is_other, call_count, self, total
FROM hot_functions
UNION ALL BY NAME
SELECT hotspot_kind, event, 'ns' AS unit, process_id, device_index, name, is_other, call_count, self FROM hot_kernels
UNION ALL BY NAME
SELECT hotspot_kind, 'ns' AS unit, process_id, device_index, range_path, is_other, call_count, self FROM hot_ranges
UNION ALL BY NAME
SELECT hotspot_kind, 'ns' AS unit, process_id, device_index, name, is_other, call_count, self,
    CASE WHEN name = 'other' AND NOT has_paths
        THEN 'by names of operations alone: no launch has a call path, so plain kernels of attention or rotary embedding count here' END AS detail
FROM hot_shares
UNION ALL BY NAME
SELECT hotspot_kind, 'bytes' AS unit, process_id, device_index, call_path_id, is_other, call_count, self, total FROM hot_rounding
UNION ALL BY NAME
SELECT 'profiled_kernel' AS hotspot_kind, 'ns' AS unit, h.process_id, h.device_index, h.name, h.call_path_id, h.range_path, h.is_other,
    h.call_count, round(h.duration_ns)::HUGEINT AS self, h.compute_ratio, h.memory_ratio, h.occupancy_ratio, s.suspect_id,
    concat_ws('; ', 'grid ' || h.grid || ', block ' || h.block, h.traced_ns || ' ns in the trace (' || h.link_method || ')', s.reason) AS detail
FROM hot_profiled AS h LEFT JOIN profiled_suspects AS s USING (number)
UNION ALL BY NAME
SELECT 'recomputation' AS hotspot_kind, 'calls' AS unit, process_id, name, call_path_id, false AS is_other, calls AS call_count,
    calls AS self, early AS calls_per_token_early, late AS calls_per_token_late, p_value AS rise_p_value
FROM hot_rising
UNION ALL BY NAME
SELECT hotspot_kind, 'bytes' AS unit, process_id, name, call_path_id, is_other, call_count, self, 'most of it read by ' || operator AS detail
FROM hot_operands
UNION ALL BY NAME
SELECT hotspot_kind, process_id, false AS is_other, abstained_reason FROM hot_abstained;

-- An event of two producers is named with both.
CREATE TEMP TABLE _events AS
SELECT event, count(DISTINCT place) > 1 AS is_shared FROM _all WHERE place <> 'gpu' GROUP BY event;

CREATE TEMP TABLE _placed AS
SELECT a.*, row_number() OVER (
        ORDER BY list_position(['cpu_path', 'cpu_function', 'gpu_path', 'gpu_function', 'gpu_range', 'gpu_kernel', 'gpu_share',
            'gpu_type', 'operand_type', 'recomputation', 'rounding', 'profiled_kernel'], a.hotspot_kind), a.hotspot_kind, a.place,
            CASE WHEN a.place <> 'gpu' THEN a.event END, a.process_id, a.device_index, a.is_other, a.self DESC NULLS LAST, a.total DESC NULLS LAST, a.name, a.file, a.module,
            a.call_path_id, a.range_path, a.detail, a.abstained_reason, a.event) - 1 AS hotspot_id,
    nullif(sum(a.self) OVER place, 0)::DOUBLE AS self_sum, nullif(sum(a.total) OVER place, 0)::DOUBLE AS total_sum
FROM _all AS a
WINDOW place AS (
    PARTITION BY a.hotspot_kind, a.place, a.process_id, a.device_index, CASE WHEN a.place <> 'gpu' THEN a.event END)
ORDER BY hotspot_id;

CREATE TEMP TABLE hotspots_made AS
SELECT p.hotspot_id, p.hotspot_kind,
    CASE WHEN e.is_shared THEN p.place || ' ' || p.event ELSE p.event END AS hotspot_event, p.unit, p.process_id, p.device_index, p.name,
    p.file, p.module, p.call_path_id, p.range_path, p.is_other, CASE WHEN p.call_count IS NOT NULL THEN least(p.call_count, 9223372036854775807) END::BIGINT AS call_count,
    CASE WHEN p.self IS NOT NULL THEN least(p.self, 9223372036854775807) END::BIGINT AS self_amount, p.self / p.self_sum AS self_ratio,
    CASE WHEN p.total IS NOT NULL THEN least(p.total, 9223372036854775807) END::BIGINT AS total_amount,
    p.total / CASE WHEN p.hotspot_kind = 'rounding' THEN p.total_sum ELSE p.self_sum END AS total_ratio,
    p.compute_ratio, p.memory_ratio, p.occupancy_ratio, p.calls_per_token_early, p.calls_per_token_late, p.rise_p_value, p.suspect_id,
    p.detail, p.abstained_reason
FROM _placed AS p LEFT JOIN _events AS e ON e.event = p.event AND p.place <> 'gpu';
