-- Devices that ran something, as the machine has them: processes that name one UUID share a device, else each process's
-- ordinal is a device of its own.
CREATE TEMP TABLE _uuids AS
SELECT process_id, device_index, min(uuid) AS uuid FROM devices
WHERE process_id IS NOT NULL AND device_index IS NOT NULL AND uuid IS NOT NULL
GROUP BY process_id, device_index HAVING count(DISTINCT uuid) = 1;

CREATE TEMP TABLE _seen AS
SELECT DISTINCT CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id, process_id, device_index
FROM gpu_ops WHERE end_ns > start_ns;

CREATE TEMP TABLE gpu_devices AS
SELECT dense_rank() OVER (
        ORDER BY s.clock_id, coalesce(u.uuid, 'process ' || coalesce(s.process_id::VARCHAR, '') || '/' || coalesce(s.device_index::VARCHAR, ''))
    ) AS device_id,
    s.clock_id, s.process_id, s.device_index, u.uuid
FROM _seen AS s
LEFT JOIN _uuids AS u ON u.process_id = s.process_id AND u.device_index = s.device_index;
