-- Counters that can't be: sums above their whole, negative remainders, a capacity that changes, and running totals that fall.
-- `longest_run` is the most samples in a row: a single sample may lie between two events.
CREATE TEMP TABLE _device_sums AS
SELECT device_index, ts_ns, row_number() OVER (PARTITION BY device_index ORDER BY ts_ns) AS place,
    max(part_bytes) FILTER (ledger_part = 'device_used') AS used_bytes, max(part_bytes) FILTER (ledger_part = 'device_total') AS total_bytes,
    max(part_bytes) FILTER (ledger_part = 'free') AS free_bytes, max(part_bytes) FILTER (ledger_part = 'unattributed') AS rest_bytes
FROM memory_ledger_made WHERE process_id IS NULL GROUP BY device_index, ts_ns;

CREATE TEMP TABLE _excesses AS
SELECT 'used_above_total' AS fault, device_index, NULL::BIGINT AS process_id, ts_ns, place, used_bytes - total_bytes AS excess_bytes
FROM _device_sums WHERE used_bytes > total_bytes
UNION ALL SELECT 'free_above_rest', device_index, NULL, ts_ns, place, used_bytes + free_bytes - total_bytes FROM _device_sums
WHERE used_bytes + free_bytes > total_bytes AND used_bytes <= total_bytes
UNION ALL SELECT 'processes_above_used', device_index, NULL, ts_ns, place, -rest_bytes FROM _device_sums WHERE rest_bytes < 0
UNION ALL SELECT 'allocations_above_process', d.device_index, m.process_id, d.ts_ns, d.place, -m.part_bytes
FROM memory_ledger_made AS m JOIN _device_sums AS d ON d.device_index = m.device_index AND d.ts_ns = m.ts_ns
WHERE m.process_id IS NOT NULL AND m.ledger_part = 'unattributed' AND m.part_bytes < 0
UNION ALL SELECT 'tensors_above_segments', d.device_index, m.process_id, d.ts_ns, d.place, -m.part_bytes
FROM memory_ledger_made AS m JOIN _device_sums AS d ON d.device_index = m.device_index AND d.ts_ns = m.ts_ns
WHERE m.ledger_part = 'torch_cached' AND m.part_bytes < 0;

CREATE TEMP TABLE _runs AS
SELECT fault, device_index, process_id, count(*) AS length, max(excess_bytes) AS excess_bytes
FROM (
    SELECT *, place - row_number() OVER (PARTITION BY fault, device_index, process_id ORDER BY place) AS run FROM _excesses
)
GROUP BY fault, device_index, process_id, run;

CREATE TEMP TABLE _capacities AS
SELECT device_index, count(*) AS sample_count, max(bytes) - min(bytes) AS excess_bytes
FROM device_samples WHERE metric = 'device_memory_total_bytes' GROUP BY device_index HAVING min(bytes) <> max(bytes);

CREATE TEMP TABLE _falls AS
SELECT metric, count(*) FILTER (step < 0) AS sample_count, count(*) AS total_count
FROM (
    SELECT metric, value - lag(value) OVER (PARTITION BY file_id, metric, labels, process_id, device_index ORDER BY ts_ns, event_index) AS step
    FROM metrics WHERE metric LIKE '%\_total' ESCAPE '\' AND ts_ns IS NOT NULL AND value IS NOT NULL
)
GROUP BY metric HAVING count(*) FILTER (step < 0) > 0;

CREATE TEMP TABLE ledger_faults AS
SELECT r.fault, r.device_index, r.process_id, NULL::VARCHAR AS name, sum(r.length)::BIGINT AS sample_count, any_value(n.total_count) AS total_count,
    max(r.length) AS longest_run, max(r.excess_bytes) AS excess_bytes
FROM _runs AS r JOIN (SELECT device_index, count(*) AS total_count FROM _device_sums GROUP BY device_index) AS n USING (device_index)
GROUP BY r.fault, r.device_index, r.process_id
UNION ALL SELECT 'capacity_changes', device_index, NULL, NULL, sample_count, sample_count, sample_count, excess_bytes FROM _capacities
UNION ALL SELECT 'total_falls', NULL, NULL, metric, sample_count, total_count, NULL, NULL FROM _falls;
