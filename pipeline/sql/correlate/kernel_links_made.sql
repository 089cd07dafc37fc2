-- Profiled launches as kernels of a trace, by base name, grid and block and by the order of launch within a process and device.
-- The profiler runs a program by itself, and often only some of its kernels: a trace of the same process is taken when
-- there is one, else any. `sequence`: the launches of the profile follow each other in the trace in exactly one place.
-- `name_grid_order`: not so, but a kernel of that name and shape runs as often in both. Anything else stays without a link.
CREATE TEMP TABLE _launches AS
SELECT m.file_id, m.launch_index, m.process_id, m.device_index, b.base_name, m.grid, m.block,
    dense_rank() OVER (ORDER BY m.file_id, m.process_id, m.device_index) AS profile_id
FROM (
    SELECT file_id, launch_index, min(process_id) AS process_id, min(device_index) AS device_index, min(name) AS name,
        min(grid) AS grid, min(block) AS block
    FROM kernel_metrics GROUP BY file_id, launch_index
) AS m
JOIN kernel_base_names AS b ON b.name = m.name;

-- The same kernels seen by two tools are one trace: that of the first file.
CREATE TEMP TABLE _kernels AS
WITH kernels AS (
    SELECT g.file_id, g.event_index, g.process_id, g.device_index, b.base_name, g.grid, g.block, g.correlation_id, g.start_ns,
        dense_rank() OVER (ORDER BY g.process_id, g.device_index) AS trace_id,
        min(g.file_id) OVER (PARTITION BY g.process_id, g.device_index) AS first_file_id
    FROM gpu_ops AS g JOIN kernel_base_names AS b ON b.name = g.name
    WHERE g.op = 'kernel'
)
SELECT * EXCLUDE (first_file_id) FROM kernels WHERE file_id = first_file_id AND base_name IN (SELECT base_name FROM _launches);

-- Grid and block count where every row of both sides has them.
CREATE TEMP TABLE _pairs AS
WITH profiles AS (
    SELECT profile_id, any_value(process_id) AS process_id, any_value(device_index) AS device_index, count(*) AS launch_count,
        bool_and(grid IS NOT NULL) AS has_grid, bool_and(block IS NOT NULL) AS has_block
    FROM _launches GROUP BY profile_id
), traces AS (
    SELECT trace_id, any_value(process_id) AS process_id, any_value(device_index) AS device_index,
        bool_and(grid IS NOT NULL) AS has_grid, bool_and(block IS NOT NULL) AS has_block
    FROM _kernels GROUP BY trace_id
)
SELECT p.profile_id, t.trace_id, p.launch_count, p.has_grid AND t.has_grid AS has_grid, p.has_block AND t.has_block AS has_block
FROM profiles AS p
JOIN traces AS t ON p.device_index = t.device_index OR p.device_index IS NULL OR t.device_index IS NULL
QUALIFY p.process_id IS NOT DISTINCT FROM t.process_id
    OR NOT coalesce(bool_or(p.process_id = t.process_id) OVER (PARTITION BY p.profile_id), false);

CREATE TEMP TABLE _profiled AS
SELECT p.profile_id, p.trace_id, l.file_id, l.launch_index,
    concat_ws('|', l.base_name, CASE WHEN p.has_grid THEN l.grid END, CASE WHEN p.has_block THEN l.block END) AS kernel,
    row_number() OVER (PARTITION BY p.profile_id, p.trace_id ORDER BY l.launch_index) AS place
FROM _pairs AS p JOIN _launches AS l USING (profile_id);

CREATE TEMP TABLE _traced AS
WITH kernels AS (
    SELECT p.profile_id, p.trace_id, k.file_id, k.event_index, k.correlation_id, k.start_ns,
        concat_ws('|', k.base_name, CASE WHEN p.has_grid THEN k.grid END, CASE WHEN p.has_block THEN k.block END) AS kernel
    FROM _pairs AS p JOIN _kernels AS k USING (trace_id)
)
SELECT *, row_number() OVER (
    PARTITION BY profile_id, trace_id ORDER BY correlation_id NULLS LAST, start_ns, file_id, event_index
) AS place
FROM kernels SEMI JOIN (SELECT DISTINCT profile_id, trace_id, kernel FROM _profiled) USING (profile_id, trace_id, kernel);

CREATE TEMP TABLE _counts AS
SELECT profile_id, trace_id, kernel, p.launches, coalesce(t.runs, 0) AS runs, p.first_place
FROM (
    SELECT profile_id, trace_id, kernel, count(*) AS launches, min(place) AS first_place
    FROM _profiled GROUP BY profile_id, trace_id, kernel
) AS p
LEFT JOIN (
    SELECT profile_id, trace_id, kernel, count(*) AS runs FROM _traced GROUP BY profile_id, trace_id, kernel
) AS t USING (profile_id, trace_id, kernel);

-- Where the profile may lie in the trace: at each run of the kernel that is rarest there, if not too often, and of those
-- where the first 32 launches fit, if not too many.
CREATE TEMP TABLE _likely AS
WITH rarest AS (
    SELECT * FROM _counts QUALIFY row_number() OVER (PARTITION BY profile_id, trace_id ORDER BY runs, kernel) = 1
), tried AS MATERIALIZED (
    SELECT p.profile_id, p.trace_id, t.place - r.first_place AS distance, p.kernel, p.place + t.place - r.first_place AS place
    FROM rarest AS r
    JOIN _traced AS t USING (profile_id, trace_id, kernel)
    JOIN _profiled AS p ON p.profile_id = r.profile_id AND p.trace_id = r.trace_id AND p.place <= 32
    WHERE r.runs <= 100000 AND t.place >= r.first_place
)
SELECT d.profile_id, d.trace_id, d.distance
FROM tried AS d
JOIN _traced AS t USING (profile_id, trace_id, kernel, place)
JOIN _pairs AS a ON a.profile_id = d.profile_id AND a.trace_id = d.trace_id
GROUP BY d.profile_id, d.trace_id, d.distance, a.launch_count
HAVING count(*) = least(a.launch_count, 32)
QUALIFY count(*) OVER (PARTITION BY d.profile_id, d.trace_id) <= 1000;

CREATE TEMP TABLE _offsets AS
WITH tried AS MATERIALIZED (
    SELECT l.profile_id, l.trace_id, l.distance, p.kernel, p.place + l.distance AS place
    FROM _likely AS l JOIN _profiled AS p USING (profile_id, trace_id)
)
SELECT d.profile_id, d.trace_id, d.distance
FROM tried AS d
JOIN _traced AS t USING (profile_id, trace_id, kernel, place)
JOIN _pairs AS a ON a.profile_id = d.profile_id AND a.trace_id = d.trace_id
GROUP BY d.profile_id, d.trace_id, d.distance, a.launch_count
HAVING count(*) = a.launch_count;

CREATE TEMP TABLE _linked AS
SELECT p.profile_id, p.trace_id, p.file_id, p.launch_index, t.file_id AS gpu_op_file_id, t.event_index AS gpu_op_event_index,
    'sequence' AS link_method
FROM (SELECT * FROM _offsets QUALIFY count(*) OVER (PARTITION BY profile_id, trace_id) = 1) AS o
JOIN _profiled AS p USING (profile_id, trace_id)
JOIN _traced AS t ON t.profile_id = p.profile_id AND t.trace_id = p.trace_id AND t.place = p.place + o.distance
UNION ALL
SELECT p.profile_id, p.trace_id, p.file_id, p.launch_index, t.file_id, t.event_index, 'name_grid_order'
FROM (SELECT *, row_number() OVER (PARTITION BY profile_id, trace_id, kernel ORDER BY place) AS turn FROM _profiled) AS p
JOIN (SELECT *, row_number() OVER (PARTITION BY profile_id, trace_id, kernel ORDER BY place) AS turn FROM _traced) AS t
    ON t.profile_id = p.profile_id AND t.trace_id = p.trace_id AND t.kernel = p.kernel AND t.turn = p.turn
JOIN _counts AS c ON c.profile_id = p.profile_id AND c.trace_id = p.trace_id AND c.kernel = p.kernel AND c.launches = c.runs
ANTI JOIN (
    SELECT profile_id, trace_id FROM _offsets GROUP BY profile_id, trace_id HAVING count(*) = 1
) AS o ON o.profile_id = p.profile_id AND o.trace_id = p.trace_id;

-- A profile that fits two traces equally well is none of them.
CREATE TEMP TABLE kernel_links_made AS
SELECT file_id, launch_index, gpu_op_file_id, gpu_op_event_index, link_method
FROM _linked
QUALIFY link_method = max(link_method) OVER (PARTITION BY profile_id)
    AND min(trace_id) FILTER (link_method = 'sequence') OVER (PARTITION BY profile_id) IS NOT DISTINCT FROM
        max(trace_id) FILTER (link_method = 'sequence') OVER (PARTITION BY profile_id)
    AND (
        max(link_method) OVER (PARTITION BY profile_id) = 'sequence'
        OR min(trace_id) OVER (PARTITION BY profile_id) = max(trace_id) OVER (PARTITION BY profile_id)
    );
