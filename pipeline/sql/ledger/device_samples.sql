-- Memory counters of devices and their processes by one sampler a device: of NVML, nvidia-smi and DCGM, where several sampled
-- the same device, the one with processes, then the one with most samples. Two samplers' moments are never mixed.
CREATE TEMP TABLE _counters AS
SELECT metric, ts_ns, device_index, process_id, value::BIGINT AS bytes, source FROM metrics
WHERE clock_aligned AND ts_ns IS NOT NULL AND device_index IS NOT NULL AND value BETWEEN 0 AND 1e18
    AND metric IN ('device_memory_used_bytes', 'device_memory_free_bytes', 'device_memory_total_bytes', 'process_memory_used_bytes');

CREATE TEMP TABLE _samplers AS
SELECT device_index, source,
    count(*) FILTER (metric = 'process_memory_used_bytes') > 0 AS has_processes,
    count(*) FILTER (metric = 'device_memory_used_bytes') AS sample_count
FROM _counters GROUP BY device_index, source
QUALIFY row_number() OVER (PARTITION BY device_index ORDER BY sample_count > 0 DESC, has_processes DESC, sample_count DESC, source) = 1;

CREATE TEMP TABLE device_samples AS
SELECT c.metric, c.ts_ns, c.device_index, c.process_id, c.bytes
FROM _counters AS c JOIN _samplers USING (device_index, source);
