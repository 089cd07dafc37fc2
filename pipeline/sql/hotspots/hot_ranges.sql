-- Device time by the range that its operations were launched in, by thread and time. Null: in no range.
CREATE TEMP TABLE _summed AS
SELECT process_id, device_index, range_path, sum(call_count)::HUGEINT AS call_count, sum(amount)::HUGEINT AS amount
FROM hot_ops GROUP BY process_id, device_index, range_path
QUALIFY bool_or(bool_or(range_path IS NOT NULL)) OVER (PARTITION BY process_id, device_index);

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (PARTITION BY process_id, device_index ORDER BY amount DESC, range_path) AS place FROM _summed;

CREATE TEMP TABLE hot_ranges AS
SELECT 'gpu_range' AS hotspot_kind, process_id, device_index, range_path, false AS is_other, call_count, amount AS self
FROM _placed WHERE place <= getvariable('hotspot_rows')
UNION ALL
SELECT 'gpu_range', process_id, device_index, NULL, true, sum(call_count), sum(amount)
FROM _placed WHERE place > getvariable('hotspot_rows') GROUP BY process_id, device_index;
