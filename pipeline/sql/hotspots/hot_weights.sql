-- What call paths weigh, CPU samples and device time alike: one row a place (what was measured, process and device) and path.
CREATE TEMP TABLE hot_weights AS
SELECT 'cpu' AS side, source, event, unit, process_id, device_index, call_path_id, sum(call_count)::HUGEINT AS call_count,
    sum(amount)::HUGEINT AS amount
FROM hot_samples GROUP BY ALL
UNION ALL
SELECT 'gpu', 'gpu', NULL, 'ns', process_id, device_index, call_path_id, sum(call_count)::HUGEINT, sum(amount)::HUGEINT
FROM hot_ops GROUP BY ALL;
