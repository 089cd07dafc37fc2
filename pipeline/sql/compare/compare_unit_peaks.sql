-- Highest live bytes of the allocator's levels within each unit: devices of a process added up, processes apart.
CREATE TEMP TABLE _within AS
SELECT u.unit, u.process_id, u.epoch_index, l.device_index, l.level, max(l.live_bytes) AS peak_bytes
FROM compare_levels AS l
ASOF JOIN compare_units AS u ON u.process_id = l.process_id AND u.start_ns <= l.ts_ns
WHERE l.level IN ('tensor', 'segment') AND (u.until_ns IS NULL OR l.ts_ns <= u.until_ns)
GROUP BY ALL;

-- An epoch starts at the level that the one before left.
CREATE TEMP TABLE _starts AS
SELECT u.unit, u.process_id, u.epoch_index, l.device_index, l.level, l.live_bytes AS peak_bytes
FROM (
    SELECT u.*, d.device_index, d.level FROM compare_units AS u
    JOIN (SELECT DISTINCT process_id, device_index, level FROM compare_levels WHERE level IN ('tensor', 'segment')) AS d USING (process_id)
) AS u
ASOF JOIN compare_levels AS l ON l.process_id = u.process_id AND l.level = u.level
    AND coalesce(l.device_index, -1) = coalesce(u.device_index, -1) AND l.ts_ns <= u.start_ns;

CREATE TEMP TABLE compare_unit_peaks AS
SELECT unit, level, max(peak_bytes)::BIGINT AS peak_bytes FROM (
    SELECT unit, process_id, epoch_index, level, sum(peak_bytes) AS peak_bytes FROM (
        SELECT unit, process_id, epoch_index, device_index, level, max(peak_bytes) AS peak_bytes
        FROM (FROM _within UNION ALL FROM _starts) GROUP BY ALL
    ) GROUP BY ALL
) GROUP BY unit, level;
