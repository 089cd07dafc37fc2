-- One row a device: its last and its fullest sample, its capacity, and samples whose counters contradict each other.
WITH _used AS (
    SELECT device_index, ts_ns,
           coalesce(max(part_bytes) FILTER (WHERE ledger_part = 'device_used'),
                    sum(part_bytes) FILTER (WHERE ledger_part IN (SELECT unnest($parts))), 0) AS bytes
    FROM memory_ledger GROUP BY ALL
),
_moments AS (
    SELECT device_index, max(ts_ns) AS last_ns, arg_max(ts_ns, (bytes, -ts_ns)) AS peak_ns FROM _used GROUP BY ALL
),
_facts AS (
    SELECT device_index, count(DISTINCT ts_ns) FILTER (WHERE is_impossible) AS impossible,
           min(left(detail, 400)) FILTER (WHERE is_impossible) AS detail,
           max(part_bytes) FILTER (WHERE ledger_part = 'device_total') AS capacity
    FROM memory_ledger GROUP BY ALL
)
SELECT m.*, f.impossible, f.detail, f.capacity
FROM _moments m JOIN _facts f ON f.device_index IS NOT DISTINCT FROM m.device_index
ORDER BY m.device_index NULLS LAST
