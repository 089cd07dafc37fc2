-- Pairs of process and device (either may be unknown), by what suspects keep there, then by the highest use.
WITH _used AS (
    SELECT process_id, device_index, max(live_bytes) AS high_bytes, 0 AS kept_bytes
    FROM live_bytes GROUP BY ALL
    UNION ALL
    SELECT process_id, device_index, 0, sum(retained_bytes)
    FROM leak_suspects WHERE verdict = 'growing' GROUP BY ALL
),
_lanes AS (
    SELECT process_id, device_index, max(high_bytes) AS high_bytes, sum(kept_bytes)::BIGINT AS kept_bytes
    FROM _used GROUP BY ALL
),
-- a device that only the driver's counters know
_bare AS (
    SELECT NULL::BIGINT AS process_id, device_index, max(part_bytes) AS high_bytes, 0::BIGINT AS kept_bytes
    FROM memory_ledger
    WHERE ledger_part = 'device_used'
      AND device_index NOT IN (SELECT device_index FROM _lanes WHERE device_index IS NOT NULL)
    GROUP BY device_index
)
SELECT * FROM _lanes
UNION ALL
SELECT * FROM _bare
ORDER BY kept_bytes DESC, high_bytes DESC NULLS LAST, process_id NULLS LAST, device_index NULLS LAST
