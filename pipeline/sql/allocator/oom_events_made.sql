-- Failed allocations, one row each: out-of-memory events of allocators and of the kernel, calls that returned 2 (out of
-- memory in the runtime and in the driver), and failed calls that eBPF saw. What several of them tell of one failure is one row:
--   cudaMalloc [100, 200) → 2, cuMemAlloc [110, 190) → 2 inside it, torch's oom at 210   →   the oom, with the call's name
-- Calls that only repeat the last error are none, and a call that a file has twice (with its backtrace) is one.
CREATE TEMP TABLE _failing AS
SELECT row_number() OVER (ORDER BY file_id, event_index) AS call_id, * FROM (
    SELECT file_id, event_index, source, api, name, start_ns, greatest(start_ns, coalesce(end_ns, start_ns)) AS end_ns, process_id,
        coalesce(thread_id, -1) AS lane, correlation_id, call_path_id, return_code, clock_aligned
    FROM api_calls
    WHERE return_code = 2 AND api IN ('runtime', 'driver') AND start_ns IS NOT NULL
        AND NOT regexp_matches(coalesce(name, ''), '(?i)(get|peek)\w*error')
    QUALIFY row_number() OVER (
        PARTITION BY file_id, process_id, api, coalesce(correlation_id, -1 - event_index)
        ORDER BY call_path_id IS NULL, start_ns, event_index
    ) = 1
);

CREATE TEMP TABLE _inside AS
SELECT d.call_id, r.call_id AS outer_id, d.name
FROM (SELECT * FROM _failing WHERE api = 'driver') AS d
ASOF JOIN (SELECT * FROM _failing WHERE api = 'runtime') AS r
    ON r.file_id = d.file_id AND r.process_id = d.process_id AND r.lane = d.lane AND r.start_ns <= d.start_ns
WHERE r.end_ns >= d.end_ns;

-- All that tells of a failure, best first: PyTorch's own event knows the bytes, a profiler's copy of it as well, then
-- calls, then what eBPF saw. `preference` 0 stands alone.
CREATE TEMP TABLE _sightings AS
SELECT row_number() OVER (ORDER BY preference, start_ns, file_id, event_index) AS sighting_id, * FROM (
    SELECT
        CASE WHEN level = 'host' THEN 0 WHEN action <> 'oom' THEN 4 WHEN source = 'torch' THEN 1 ELSE 2 END AS preference,
        file_id, event_index, source, level, name, ts_ns AS start_ns, ts_ns AS end_ns, process_id, coalesce(thread_id, -1) AS lane,
        device_index, return_code,
        -- A kernel's kill tells how much there was in all, not what was asked for.
        coalesce(requested_bytes, CASE WHEN level <> 'host' THEN size_bytes END) AS requested_bytes, device_free_bytes,
        total_allocated_bytes, total_reserved_bytes, correlation_id, call_path_id, clock_aligned, NULL AS calls
    FROM memory_events
    WHERE action = 'oom' OR (level = 'driver' AND action IN ('alloc', 'create', 'map') AND return_code = 2)
    UNION ALL
    SELECT 3, f.file_id, f.event_index, f.source, 'driver', f.name, f.start_ns, f.end_ns, f.process_id, f.lane, NULL, f.return_code,
        NULL, NULL, NULL, NULL, f.correlation_id, f.call_path_id, f.clock_aligned, concat_ws(' > ', f.name, i.names)
    FROM _failing AS f
    LEFT JOIN (SELECT outer_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS names FROM _inside GROUP BY outer_id) AS i
        ON i.outer_id = f.call_id
    WHERE f.call_id NOT IN (SELECT call_id FROM _inside)
);

CREATE TEMP TABLE _better AS
SELECT b.sighting_id AS better_id, b.process_id, b.file_id, b.clock_aligned, b.start_ns, b.end_ns, w.preference
FROM _sightings AS b
JOIN (VALUES (2), (3), (4)) AS w(preference) ON b.preference BETWEEN 1 AND w.preference - 1
WHERE b.start_ns IS NOT NULL AND b.process_id IS NOT NULL;

CREATE TEMP TABLE _nearby AS
SELECT s.sighting_id, b.better_id, greatest(b.start_ns - s.end_ns, s.start_ns - b.end_ns, 0) AS distance_ns
FROM _sightings AS s
ASOF JOIN _better AS b ON b.preference = s.preference AND b.process_id = s.process_id
    AND b.start_ns <= s.end_ns + getvariable('clock_tolerance_ns')
WHERE b.file_id = s.file_id OR (b.clock_aligned AND s.clock_aligned)
UNION ALL
SELECT s.sighting_id, b.better_id, greatest(b.start_ns - s.end_ns, s.start_ns - b.end_ns, 0)
FROM _sightings AS s
ASOF JOIN _better AS b ON b.preference = s.preference AND b.process_id = s.process_id
    AND b.end_ns >= s.start_ns - getvariable('clock_tolerance_ns')
WHERE b.file_id = s.file_id OR (b.clock_aligned AND s.clock_aligned);

CREATE TEMP TABLE _told_by AS
SELECT sighting_id, arg_min(better_id, (distance_ns, better_id)) AS better_id
FROM _nearby WHERE distance_ns <= getvariable('clock_tolerance_ns') GROUP BY sighting_id;

-- Each step leads to a better preference, so that three are enough.
CREATE TEMP TABLE _roots AS
SELECT s.sighting_id, coalesce(c.better_id, b.better_id, a.better_id, s.sighting_id) AS root_id
FROM _sightings AS s
LEFT JOIN _told_by AS a ON a.sighting_id = s.sighting_id
LEFT JOIN _told_by AS b ON b.sighting_id = a.better_id
LEFT JOIN _told_by AS c ON c.sighting_id = b.better_id;

CREATE TEMP TABLE _together AS
SELECT
    r.root_id,
    arg_min(s.sighting_id, (s.preference, s.sighting_id)) FILTER (s.preference = 3) AS call_sighting_id,
    max(s.requested_bytes) AS requested_bytes,
    max(s.device_index) AS device_index,
    arg_min(s.call_path_id, s.sighting_id) FILTER (s.call_path_id IS NOT NULL) AS call_path_id,
    arg_min(s.name, s.sighting_id) FILTER (s.preference = 4) AS seen_name,
    max(s.return_code) AS return_code,
    nullif(string_agg(DISTINCT s.source, ', ' ORDER BY s.source) FILTER (s.sighting_id <> r.root_id), '') AS others
FROM _roots AS r JOIN _sightings AS s USING (sighting_id)
GROUP BY r.root_id;

-- Where the call lies: on its own thread, else the innermost range of the process at that time.
CREATE TEMP TABLE _on_thread AS
SELECT c.sighting_id, t.range_id
FROM (SELECT * FROM _sightings WHERE preference = 3 AND clock_aligned) AS c
ASOF JOIN thread_timeline AS t
    ON t.process_id = c.process_id AND t.file_id = c.file_id AND t.thread_id = c.lane AND t.ts_ns <= c.start_ns;

CREATE TEMP TABLE _at_time AS
SELECT o.sighting_id, arg_max(n.range_id, (n.start_ns, n.range_id)) AS range_id
FROM (
    SELECT s.sighting_id, s.process_id, s.start_ns, f.file_id FROM _sightings AS s
    JOIN (SELECT DISTINCT process_id, file_id FROM range_timeline) AS f ON f.process_id = s.process_id
    WHERE s.clock_aligned AND s.preference > 0
) AS o
ASOF JOIN range_timeline AS t ON t.process_id = o.process_id AND t.file_id = o.file_id AND t.ts_ns <= o.start_ns
JOIN range_nesting AS n ON n.range_id = t.range_id
GROUP BY o.sighting_id;

CREATE TEMP TABLE _request_then AS
SELECT s.sighting_id, t.request_id
FROM (SELECT * FROM _sightings WHERE clock_aligned AND preference > 0) AS s
ASOF JOIN request_timeline AS t ON t.process_id = s.process_id AND t.ts_ns <= s.start_ns
WHERE t.request_id IS NOT NULL;

CREATE TEMP TABLE oom_events_made AS
SELECT
    row_number() OVER (ORDER BY o.start_ns NULLS LAST, o.sighting_id) - 1 AS oom_event_id,
    o.process_id, coalesce(o.device_index, g.device_index) AS device_index, o.start_ns AS ts_ns, o.source, o.level,
    coalesce(c.name, g.seen_name, o.name) AS name,
    coalesce(c.return_code, o.return_code, g.return_code) AS return_code,
    coalesce(o.requested_bytes, g.requested_bytes) AS requested_bytes,
    o.device_free_bytes, o.total_allocated_bytes, o.total_reserved_bytes,
    coalesce(c.correlation_id, o.correlation_id) AS correlation_id,
    coalesce(o.call_path_id, g.call_path_id) AS call_path_id,
    coalesce(h.range_id, i.range_id) AS range_id,
    coalesce(n.request_id, q.request_id) AS request_id,
    nullif(concat_ws('; ', 'calls: ' || c.calls, 'also seen by ' || g.others), '') AS detail
FROM _together AS g
JOIN _sightings AS o ON o.sighting_id = g.root_id
LEFT JOIN _sightings AS c ON c.sighting_id = g.call_sighting_id
LEFT JOIN _on_thread AS h ON h.sighting_id = c.sighting_id
LEFT JOIN _at_time AS i ON i.sighting_id = o.sighting_id
LEFT JOIN range_nesting AS n ON n.range_id = coalesce(h.range_id, i.range_id)
LEFT JOIN _request_then AS q ON q.sighting_id = o.sighting_id;
