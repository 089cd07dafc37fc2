-- Which process each file speaks of. PyTorch snapshots, request logs and the like name none: a snapshot takes the
-- process that allocated its segments, or whose profiler saw its tensors, in another file, everything else the only
-- allocating process of its folder.
-- Process 0 is the kernel, which owns what it allocates whoever runs: a file of its events names no process.
-- A negative number stands for a process that no file names (one for each folder, or for each snapshot of a folder).
CREATE TEMP TABLE _named AS
SELECT file_id, process_id, count(*) AS votes FROM memory_events WHERE process_id IS NOT NULL GROUP BY ALL
UNION ALL
SELECT file_id, process_id, 1 FROM ranges WHERE process_id IS NOT NULL GROUP BY ALL;

CREATE TEMP TABLE _files AS
SELECT
    file_id,
    format,
    process_id,
    CASE WHEN contains(path, '/') THEN regexp_replace(path, '/[^/]*$', '') ELSE '' END AS folder
FROM capture_files;

CREATE TEMP TABLE _segments AS
SELECT DISTINCT file_id, address, size_bytes FROM memory_events WHERE level = 'segment' AND action IN ('alloc', 'map')
UNION
SELECT DISTINCT file_id, address, total_bytes FROM segments;

-- Tensors, where a profiler's trace shows them too: it gives the block's size, the snapshot what was asked for.
CREATE TEMP TABLE _tensors AS
SELECT DISTINCT file_id, process_id, source = 'kineto' AS is_profiled, device_index, address, (size_bytes + 511) // 512 AS units
FROM memory_events
WHERE level = 'tensor' AND action = 'alloc' AND address IS NOT NULL
    AND EXISTS (SELECT 1 FROM memory_events WHERE level = 'tensor' AND source = 'kineto');

CREATE TEMP TABLE _by_address AS
SELECT v.file_id, v.process_id FROM (
    SELECT s.file_id, d.process_id, count(*) AS votes
    FROM _segments AS s
    JOIN (
        SELECT DISTINCT process_id, address, size_bytes FROM memory_events
        WHERE level = 'driver' AND process_id IS NOT NULL AND action IN ('alloc', 'map')
    ) AS d USING (address, size_bytes)
    GROUP BY s.file_id, d.process_id
    UNION ALL
    SELECT s.file_id, d.process_id, count(*)
    FROM _tensors AS s
    JOIN _tensors AS d USING (device_index, address, units)
    WHERE NOT s.is_profiled AND d.is_profiled AND d.process_id IS NOT NULL
    GROUP BY s.file_id, d.process_id
) AS v
WHERE v.file_id NOT IN (SELECT file_id FROM _named)
GROUP BY v.file_id, v.process_id
QUALIFY row_number() OVER (PARTITION BY v.file_id ORDER BY sum(v.votes) DESC, v.process_id) = 1;

CREATE TEMP TABLE _own AS
SELECT
    f.file_id,
    f.folder,
    f.format,
    coalesce(
        f.process_id,
        (SELECT CASE WHEN count(DISTINCT n.process_id) = 1 THEN any_value(n.process_id) END FROM _named AS n
            WHERE n.file_id = f.file_id AND n.process_id <> 0),
        (SELECT b.process_id FROM _by_address AS b WHERE b.file_id = f.file_id)
    ) AS process_id,
    f.file_id IN (SELECT file_id FROM _named) AS names_processes
FROM _files AS f;

CREATE TEMP TABLE _snapshots AS
SELECT
    o.file_id,
    o.folder,
    count(*) OVER (PARTITION BY o.folder) AS in_folder,
    o.process_id,
    min(o.file_id) OVER (PARTITION BY o.folder) AS first_file_id
FROM _own AS o
WHERE o.file_id IN (SELECT file_id FROM blocks UNION SELECT file_id FROM _segments UNION
                    SELECT file_id FROM memory_events WHERE level = 'tensor' AND source <> 'kineto');

CREATE TEMP TABLE _folder_named AS
SELECT o.folder, n.process_id, sum(n.votes) AS votes
FROM _named AS n JOIN _own AS o USING (file_id)
WHERE n.process_id <> 0
GROUP BY ALL;

CREATE TEMP TABLE _snapshot_process AS
SELECT
    s.file_id,
    s.folder,
    coalesce(
        s.process_id,
        CASE WHEN s.in_folder = 1 THEN (
            SELECT CASE WHEN count(DISTINCT n.process_id) = 1 THEN any_value(n.process_id) END
            FROM _folder_named AS n WHERE n.folder = s.folder
        ) END,
        CASE WHEN s.in_folder = 1 THEN -1 - s.first_file_id ELSE -1 - s.file_id END
    ) AS process_id
FROM _snapshots AS s;

-- Processes that allocate, a folder: snapshots' first, else those named by any file.
CREATE TEMP TABLE _folder_process AS
SELECT
    folder,
    CASE
        WHEN count(DISTINCT process_id) FILTER (is_snapshot) = 1 THEN any_value(process_id) FILTER (is_snapshot)
        WHEN count(DISTINCT process_id) FILTER (is_snapshot) = 0 AND count(DISTINCT process_id) = 1 THEN any_value(process_id)
    END AS process_id
FROM (
    SELECT folder, process_id, true AS is_snapshot FROM _snapshot_process
    UNION ALL SELECT folder, process_id, false FROM _folder_named
)
GROUP BY folder;

CREATE TEMP TABLE file_processes AS
SELECT
    o.file_id,
    coalesce(
        o.process_id,
        s.process_id,
        CASE WHEN NOT o.names_processes THEN coalesce(f.process_id, (
            SELECT CASE WHEN count(DISTINCT a.process_id) = 1 THEN any_value(a.process_id) END FROM _folder_process AS a
        )) END
    ) AS process_id
FROM _own AS o
LEFT JOIN _snapshot_process AS s USING (file_id)
LEFT JOIN _folder_process AS f ON f.folder = o.folder;
