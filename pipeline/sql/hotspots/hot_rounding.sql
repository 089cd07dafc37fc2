-- Bytes that rounding adds to tensors, by call path, at the moment when most tensor bytes of their process and device are live.
CREATE TEMP TABLE _peaks AS
SELECT process_id, device_index, arg_max(ts_ns, (live_bytes, -ts_ns)) AS ts_ns FROM live_bytes WHERE level = 'tensor'
GROUP BY process_id, device_index;

CREATE TEMP TABLE _summed AS
SELECT a.process_id, a.device_index, a.alloc_call_path_id AS call_path_id, count(*)::HUGEINT AS call_count,
    sum(a.allocated_bytes - a.requested_bytes)::HUGEINT AS self, sum(a.allocated_bytes)::HUGEINT AS total
FROM allocations AS a
JOIN _peaks AS p ON p.process_id IS NOT DISTINCT FROM a.process_id AND p.device_index IS NOT DISTINCT FROM a.device_index
WHERE a.level = 'tensor' AND a.allocated_bytes >= a.requested_bytes
    AND coalesce(a.alloc_ts_ns, p.ts_ns) <= p.ts_ns AND (a.free_ts_ns IS NULL OR a.free_ts_ns > p.ts_ns)
GROUP BY ALL;

CREATE TEMP TABLE _kept AS
SELECT process_id, device_index FROM _summed GROUP BY process_id, device_index
ORDER BY sum(self) DESC, process_id NULLS LAST, device_index NULLS LAST LIMIT getvariable('hotspot_places');

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (PARTITION BY process_id, device_index ORDER BY self DESC, total DESC, call_path_id NULLS LAST) AS place
FROM (
    SELECT k.process_id, k.device_index, s.call_path_id, sum(s.call_count) AS call_count, sum(s.self) AS self, sum(s.total) AS total
    FROM _summed AS s
    LEFT JOIN _kept AS k ON k.process_id IS NOT DISTINCT FROM s.process_id AND k.device_index IS NOT DISTINCT FROM s.device_index
    GROUP BY k.process_id, k.device_index, s.call_path_id
);

CREATE TEMP TABLE hot_rounding AS
SELECT 'rounding' AS hotspot_kind, process_id, device_index, call_path_id, false AS is_other, call_count, self, total
FROM _placed WHERE place <= getvariable('hotspot_rows') AND self > 0
UNION ALL
SELECT 'rounding', process_id, device_index, NULL, true, sum(call_count), sum(self), sum(total)
FROM _placed WHERE place > getvariable('hotspot_rows') OR self = 0 GROUP BY process_id, device_index;
