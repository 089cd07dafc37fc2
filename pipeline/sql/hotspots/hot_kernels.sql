-- Device time by operation name; copies and fills by what the producer calls them. The heaviest of a place have a row each.
CREATE TEMP TABLE _summed AS
SELECT process_id, device_index, op, name, sum(call_count)::HUGEINT AS call_count, sum(amount)::HUGEINT AS amount
FROM hot_ops GROUP BY ALL;

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (PARTITION BY process_id, device_index ORDER BY amount DESC, op, name) AS place FROM _summed;

CREATE TEMP TABLE hot_kernels AS
SELECT 'gpu_kernel' AS hotspot_kind, process_id, device_index, op AS event, name, false AS is_other, call_count, amount AS self
FROM _placed WHERE place <= getvariable('hotspot_rows')
UNION ALL
SELECT 'gpu_kernel', process_id, device_index, NULL, NULL, true, sum(call_count), sum(amount)
FROM _placed WHERE place > getvariable('hotspot_rows') GROUP BY process_id, device_index;
