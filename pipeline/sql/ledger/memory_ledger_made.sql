-- Who holds the device's memory at each sample: used = sum of processes + unattributed, and a process = what torch has
-- handed out + what it caches + other driver allocations + context and modules + unattributed. The context's share is
-- what the process held beyond its allocations when it first did (its lowest such sample). Null is "not known".
-- At most `ledger_samples` moments a device: evenly chosen, and the highest and last ones.
CREATE TEMP TABLE _chosen_samples AS
SELECT device_index, ts_ns FROM (
    SELECT device_index, ts_ns, bytes, row_number() OVER (PARTITION BY device_index ORDER BY ts_ns) - 1 AS place,
        count(*) OVER (PARTITION BY device_index) AS total,
        row_number() OVER (PARTITION BY device_index ORDER BY bytes DESC, ts_ns) AS height
    FROM device_samples WHERE metric = 'device_memory_used_bytes'
)
WHERE height = 1 OR place = total - 1 OR place = 0
    OR (place * getvariable('ledger_samples')) // total <> ((place - 1) * getvariable('ledger_samples')) // total;

CREATE TEMP TABLE _device AS
SELECT c.device_index, c.ts_ns,
    max(s.bytes) FILTER (s.metric = 'device_memory_used_bytes') AS used_bytes,
    max(s.bytes) FILTER (s.metric = 'device_memory_free_bytes') AS free_bytes,
    max(s.bytes) FILTER (s.metric = 'device_memory_total_bytes') AS total_bytes
FROM _chosen_samples AS c JOIN device_samples AS s USING (device_index, ts_ns)
WHERE s.metric <> 'process_memory_used_bytes'
GROUP BY c.device_index, c.ts_ns;

CREATE TEMP TABLE _process_samples AS
SELECT c.device_index, c.ts_ns, s.process_id, max(s.bytes) AS process_bytes
FROM _chosen_samples AS c JOIN device_samples AS s USING (device_index, ts_ns)
WHERE s.metric = 'process_memory_used_bytes' AND s.process_id IS NOT NULL
GROUP BY c.device_index, c.ts_ns, s.process_id;

-- Driver allocations on the device that are no segment's.
CREATE TEMP TABLE _outside AS
SELECT process_id, device_index, alloc_ts_ns, free_ts_ns, allocated_bytes FROM allocations
WHERE level = 'driver' AND memory_kind IN ('device', 'unknown') AND allocation_id NOT IN (
    SELECT parent_allocation_id FROM allocations WHERE level = 'segment' AND parent_allocation_id IS NOT NULL
);

-- Time in cells, of which most hold no sample: what changes in such a cell is summed at once.
CREATE TEMP TABLE _cells AS
SELECT (max(ts_ns) - min(ts_ns)) // 65536 + 1 AS width_ns FROM _chosen_samples;

CREATE TEMP TABLE _sampled_cells AS
SELECT DISTINCT device_index, ts_ns // (SELECT width_ns FROM _cells) AS cell FROM _chosen_samples;

CREATE TEMP TABLE _changes AS
SELECT c.process_id, c.device_index, c.part, max(c.ts_ns) AS ts_ns, sum(c.change) AS change
FROM (
    SELECT *, ts_ns // (SELECT width_ns FROM _cells) AS cell
    FROM (
        SELECT process_id, device_index, level AS part, coalesce(alloc_ts_ns, 0) AS ts_ns, allocated_bytes AS change
        FROM allocations WHERE level IN ('tensor', 'segment')
        UNION ALL SELECT process_id, device_index, level, free_ts_ns, -allocated_bytes FROM allocations
        WHERE level IN ('tensor', 'segment') AND free_ts_ns IS NOT NULL
        UNION ALL SELECT process_id, device_index, 'outside', coalesce(alloc_ts_ns, 0), allocated_bytes FROM _outside
        UNION ALL SELECT process_id, device_index, 'outside', free_ts_ns, -allocated_bytes FROM _outside WHERE free_ts_ns IS NOT NULL
    )
) AS c
LEFT JOIN _sampled_cells AS s ON s.device_index = c.device_index AND s.cell = c.cell
GROUP BY c.process_id, c.device_index, c.part, c.cell, CASE WHEN s.cell IS NOT NULL THEN c.ts_ns END;

-- Changes are summed up to the first sample that shows them, then over samples.
CREATE TEMP TABLE _known_changes AS
SELECT process_id, device_index, part, ts_ns,
    sum(change) OVER (PARTITION BY process_id, device_index, part ORDER BY ts_ns) AS live_bytes
FROM (
    SELECT c.process_id, c.device_index, c.part, s.ts_ns, sum(c.change) AS change
    FROM _changes AS c ASOF JOIN _chosen_samples AS s ON s.device_index = c.device_index AND s.ts_ns >= c.ts_ns
    GROUP BY c.process_id, c.device_index, c.part, s.ts_ns
);

CREATE TEMP TABLE _parts AS
SELECT p.device_index, p.ts_ns, p.process_id, p.process_bytes,
    CASE WHEN k.has_tensor THEN coalesce(t.live_bytes, 0) END AS torch_bytes,
    CASE WHEN k.has_segment THEN coalesce(s.live_bytes, 0) END AS reserved_bytes,
    CASE WHEN k.has_driver THEN coalesce(o.live_bytes, 0) END AS outside_bytes
FROM _process_samples AS p
LEFT JOIN (
    SELECT process_id, device_index, bool_or(level = 'tensor') AS has_tensor, bool_or(level = 'segment') AS has_segment,
        bool_or(level = 'driver') AS has_driver
    FROM allocations GROUP BY process_id, device_index
) AS k ON k.process_id = p.process_id AND k.device_index = p.device_index
ASOF LEFT JOIN (SELECT * FROM _known_changes WHERE part = 'tensor') AS t
    ON t.process_id = p.process_id AND t.device_index = p.device_index AND t.ts_ns <= p.ts_ns
ASOF LEFT JOIN (SELECT * FROM _known_changes WHERE part = 'segment') AS s
    ON s.process_id = p.process_id AND s.device_index = p.device_index AND s.ts_ns <= p.ts_ns
ASOF LEFT JOIN (SELECT * FROM _known_changes WHERE part = 'outside') AS o
    ON o.process_id = p.process_id AND o.device_index = p.device_index AND o.ts_ns <= p.ts_ns;

CREATE TEMP TABLE _rests AS
SELECT *, process_bytes - reserved_bytes - coalesce(outside_bytes, 0) AS rest_bytes FROM _parts;

-- A sample taken while an allocation is under way is a little off; the context is the lowest rest that is not negative,
-- among samples at which the process already held segments.
CREATE TEMP TABLE _contexts AS
SELECT process_id, device_index, min(rest_bytes) AS context_bytes FROM _rests
WHERE rest_bytes >= 0 AND reserved_bytes > 0 GROUP BY ALL;

CREATE TEMP TABLE memory_ledger_made AS
SELECT ts_ns, device_index, CAST(NULL AS BIGINT) AS process_id, 'device_total' AS ledger_part, total_bytes AS part_bytes,
    false AS is_impossible, CAST(NULL AS VARCHAR) AS detail
FROM _device
UNION ALL
SELECT ts_ns, device_index, NULL, 'device_used', used_bytes, coalesce(used_bytes > total_bytes, false),
    CASE WHEN used_bytes > total_bytes THEN 'used is more than the device has' END
FROM _device
UNION ALL
SELECT ts_ns, device_index, NULL, 'free', free_bytes, coalesce(used_bytes + free_bytes > total_bytes, false),
    CASE WHEN used_bytes + free_bytes > total_bytes THEN 'used and free together are more than the device has' END
FROM _device
UNION ALL
SELECT d.ts_ns, d.device_index, NULL, 'unattributed',
    d.used_bytes - coalesce(p.process_bytes, 0), coalesce(p.process_bytes > d.used_bytes, false),
    CASE WHEN p.process_bytes IS NULL THEN 'no process is listed: all of it is driver, firmware or not known'
        WHEN p.process_bytes > d.used_bytes THEN 'processes hold more than the device uses' END
FROM _device AS d
LEFT JOIN (SELECT device_index, ts_ns, sum(process_bytes)::BIGINT AS process_bytes FROM _process_samples GROUP BY ALL) AS p
    USING (device_index, ts_ns)
UNION ALL
SELECT ts_ns, device_index, process_id, 'other_process', process_bytes, false, 'no allocator activity of this process was recorded'
FROM _rests WHERE torch_bytes IS NULL AND reserved_bytes IS NULL AND outside_bytes IS NULL
UNION ALL
SELECT ts_ns, device_index, process_id, 'torch_allocated', torch_bytes, false, NULL
FROM _rests WHERE torch_bytes IS NOT NULL
UNION ALL
SELECT ts_ns, device_index, process_id, 'torch_cached', reserved_bytes - coalesce(torch_bytes, 0), coalesce(torch_bytes > reserved_bytes, false),
    CASE WHEN torch_bytes > reserved_bytes THEN 'more handed out than reserved' END
FROM _rests WHERE reserved_bytes IS NOT NULL
UNION ALL
SELECT ts_ns, device_index, process_id, 'driver_outside', outside_bytes, false,
    CASE WHEN outside_bytes IS NULL THEN 'no driver records' END
FROM _rests WHERE torch_bytes IS NOT NULL OR reserved_bytes IS NOT NULL OR outside_bytes IS NOT NULL
UNION ALL
SELECT r.ts_ns, r.device_index, r.process_id, 'context_and_modules',
    CASE WHEN r.rest_bytes IS NOT NULL THEN greatest(0, least(coalesce(c.context_bytes, r.rest_bytes), r.rest_bytes)) END,
    coalesce(r.rest_bytes < 0, false),
    CASE WHEN r.rest_bytes < 0 THEN 'the process holds less than its allocations (a sample between two events)' END
FROM _rests AS r LEFT JOIN _contexts AS c USING (process_id, device_index)
WHERE r.reserved_bytes IS NOT NULL
UNION ALL
SELECT r.ts_ns, r.device_index, r.process_id, 'unattributed',
    CASE WHEN r.reserved_bytes IS NULL THEN r.process_bytes - coalesce(r.outside_bytes, 0)
        ELSE r.rest_bytes - greatest(0, least(coalesce(c.context_bytes, r.rest_bytes), r.rest_bytes)) END,
    false, NULL
FROM _rests AS r LEFT JOIN _contexts AS c USING (process_id, device_index)
WHERE r.torch_bytes IS NOT NULL OR r.reserved_bytes IS NOT NULL OR r.outside_bytes IS NOT NULL;
