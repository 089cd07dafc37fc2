-- Bytes that growing suspects keep, added up in the order of their allocation, one row a slice of time.
WITH _kept AS (
    SELECT greatest(coalesce(a.alloc_ts_ns, $start_ns), $start_ns) AS ts_ns, e.allocated_bytes
    FROM leak_evidence e
    JOIN leak_suspects s USING (suspect_id)
    JOIN allocations a USING (allocation_id)
    WHERE s.verdict = 'growing'
      AND s.process_id IS NOT DISTINCT FROM $process_id AND s.device_index IS NOT DISTINCT FROM $device_index
),
_slices AS (
    SELECT (ts_ns - $start_ns) // $width_ns AS slice, max(ts_ns) AS ts_ns, sum(allocated_bytes) AS bytes
    FROM _kept GROUP BY slice
)
SELECT ts_ns, (sum(bytes) OVER (ORDER BY slice))::BIGINT AS bytes
FROM _slices ORDER BY slice
