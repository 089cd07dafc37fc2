-- Calls that hold the host up, one row a call: waits for the device, copies that wait, allocations, contexts, graphs, modules.
-- Two records of one call (a call and its backtrace), and a driver call inside a runtime call that is here, are one:
--   cudaFree [100, 200) with cuCtxSynchronize [110, 150) inside it   →   cudaFree
CREATE OR REPLACE TEMP MACRO _stall_kind(bare) AS CASE
    WHEN regexp_matches(bare, '^((cuda|hip)(Device|Stream|Event|Thread|Ctx)|cu(Ctx|Stream|Event))Synchronize$') THEN 'synchronize'
    WHEN regexp_matches(bare, '^(cuda|hip|cu)Memcpy') AND NOT regexp_matches(bare, 'Async|Batch|Node|Params') THEN 'synchronous_copy'
    WHEN regexp_matches(bare, 'Async') THEN NULL
    WHEN regexp_matches(bare, '^(cuda|hip)(Malloc|ExtMalloc|Free|Host(Alloc|Malloc|Free|Register|Unregister))') THEN 'allocation'
    WHEN regexp_matches(bare, '^cuMem(Alloc|Free|Host|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)')
        AND NOT regexp_matches(bare, 'Get') THEN 'allocation'
    WHEN regexp_matches(bare, '^cu(Array|Array3D|MipmappedArray)(Create|Destroy)$') THEN 'allocation'
    WHEN regexp_matches(bare, '^(cuda|cu|hip)Graph(Instantiate|ExecUpdate|Upload)') THEN 'graph'
    WHEN regexp_matches(bare, '^(cu(CtxCreate|CtxDestroy|DevicePrimaryCtx(Retain|Release|Reset)|GreenCtxCreate|Init)|(cuda|hip)(SetDevice|InitDevice|DeviceReset))$') THEN 'context'
    WHEN regexp_matches(bare, '^((cu|hip)(Module(Load|Unload)|Library(Load|Unload)|Link(Create|Complete|Add))|cudaLibrary(Load|Unload))') THEN 'module'
END;

CREATE TEMP TABLE _kinds AS
SELECT name, api, _stall_kind(regexp_replace(name, '(_v[0-9]+|_ptsz|_ptds)+$', '')) AS stall_kind
FROM (SELECT DISTINCT name, api FROM api_calls WHERE api IN ('runtime', 'driver') AND name IS NOT NULL);

-- A context made by the way: the longest call of another kind before the first operation, where it takes long enough.
CREATE TEMP TABLE _lazy_contexts AS
SELECT a.file_id, a.event_index
FROM api_calls AS a
JOIN call_files AS f ON f.file_id = a.file_id AND f.process_id IS NOT DISTINCT FROM a.process_id
JOIN _kinds AS k ON k.name = a.name AND k.api = a.api AND k.stall_kind IS NULL
LEFT JOIN (SELECT file_id, process_id, min(start_ns) AS first_ns FROM launch_calls GROUP BY file_id, process_id) AS l
    ON l.file_id = a.file_id AND l.process_id IS NOT DISTINCT FROM a.process_id
WHERE a.end_ns - a.start_ns >= getvariable('context_min_ns') AND a.end_ns <= coalesce(l.first_ns, a.end_ns)
QUALIFY row_number() OVER (PARTITION BY a.file_id, a.process_id ORDER BY a.end_ns - a.start_ns DESC, a.start_ns, a.event_index) = 1;

CREATE TEMP TABLE _copies AS
SELECT file_id, event_index, device_index, stream_id, size_bytes, copy_kind, is_pageable FROM launch_calls WHERE is_copy;

CREATE TEMP TABLE _calls AS
SELECT a.file_id, a.event_index, a.source, a.api, a.name, a.process_id, a.thread_id, f.clock_id, a.start_ns,
    greatest(a.end_ns, a.start_ns) AS end_ns, a.correlation_id, a.call_path_id, l.device_index, l.stream_id, l.size_bytes, l.copy_kind,
    coalesce(l.is_pageable, false) AS is_pageable,
    coalesce(k.stall_kind, CASE WHEN l.is_pageable THEN 'pageable_copy' ELSE 'context' END) AS stall_kind
FROM api_calls AS a
JOIN call_files AS f ON f.file_id = a.file_id AND f.process_id IS NOT DISTINCT FROM a.process_id
JOIN _kinds AS k ON k.name = a.name AND k.api = a.api
LEFT JOIN _copies AS l ON l.file_id = a.file_id AND l.event_index = a.event_index
LEFT JOIN _lazy_contexts AS z ON z.file_id = a.file_id AND z.event_index = a.event_index
WHERE a.start_ns IS NOT NULL AND (k.stall_kind IS NOT NULL OR l.is_pageable OR z.file_id IS NOT NULL);

CREATE TEMP TABLE _once AS
SELECT *, coalesce(thread_id, -1) AS lane,
    max(call_path_id) OVER (PARTITION BY file_id, process_id, api, coalesce(correlation_id, -1 - event_index)) AS any_path_id
FROM _calls
QUALIFY row_number() OVER (
    PARTITION BY file_id, process_id, api, coalesce(correlation_id, -1 - event_index) ORDER BY end_ns - start_ns DESC NULLS LAST, event_index
) = 1;

CREATE TEMP TABLE _inside AS
SELECT d.file_id, d.event_index
FROM (SELECT * FROM _once WHERE api = 'driver') AS d
ASOF JOIN (SELECT * FROM _once WHERE api = 'runtime') AS r
    ON r.file_id = d.file_id AND r.process_id IS NOT DISTINCT FROM d.process_id AND r.lane = d.lane AND r.start_ns <= d.start_ns
WHERE r.end_ns >= d.end_ns;

-- Records of waits alone count where the call itself was not recorded. Waits of one stream for another hold no host up.
CREATE TEMP TABLE _waits AS
SELECT file_id, process_id, correlation_id, sync_kind, event_index, source, start_ns, end_ns, stream_id, clock_aligned FROM sync_events
WHERE sync_kind IN ('event', 'stream', 'context') AND end_ns >= start_ns;

CREATE TEMP TABLE _lone_waits AS
SELECT w.* FROM _waits AS w
WHERE NOT EXISTS (
    FROM api_calls AS a WHERE a.file_id = w.file_id AND a.process_id = w.process_id AND a.correlation_id = w.correlation_id
) AND NOT EXISTS (
    FROM call_files AS f WHERE f.process_id = w.process_id AND f.file_id <> w.file_id AND w.clock_aligned AND f.clock_id = -1
        AND f.first_ns <= w.start_ns AND w.start_ns <= f.last_ns
);

CREATE TEMP TABLE stall_calls AS
SELECT c.stall_kind, c.name, c.source, c.file_id, c.event_index, c.process_id, c.thread_id, c.clock_id, c.device_index,
    coalesce(c.stream_id, w.stream_id) AS stream_id, c.start_ns, c.end_ns, c.size_bytes, c.correlation_id, c.any_path_id AS call_path_id,
    CASE WHEN c.copy_kind IS NOT NULL THEN c.copy_kind || CASE WHEN c.is_pageable THEN ', pageable' ELSE '' END END AS detail
FROM _once AS c
ANTI JOIN _inside AS i ON i.file_id = c.file_id AND i.event_index = c.event_index
LEFT JOIN (
    SELECT file_id, process_id, correlation_id, max(stream_id) AS stream_id FROM _waits
    WHERE correlation_id IS NOT NULL GROUP BY file_id, process_id, correlation_id
) AS w ON w.file_id = c.file_id AND w.process_id = c.process_id AND w.correlation_id = c.correlation_id
UNION ALL
SELECT 'synchronize', sync_kind || ' synchronize', source, file_id, event_index, process_id, NULL,
    CASE WHEN clock_aligned THEN -1 ELSE file_id END, NULL, stream_id, start_ns, end_ns, NULL, correlation_id, NULL, 'record of a wait, no call'
FROM _lone_waits;
