-- Ranges that launched kernel by kernel where most ranges of their family launched a graph. Launches are counted between a
-- range's start and end on its thread; of nested ranges the outermost tells.
CREATE TEMP TABLE _launches AS
SELECT file_id, process_id, coalesce(thread_id, -1) AS lane, start_ns,
    CASE WHEN regexp_matches(name, '^(cuda|hip|cu)GraphLaunch') THEN 1 ELSE 0 END AS is_graph
FROM api_calls
WHERE clock_aligned AND start_ns IS NOT NULL AND regexp_matches(name, '^(cuda|hip|cu)(GraphLaunch|Launch|ModuleLaunch|ExtLaunch)')
    AND NOT regexp_matches(name, 'HostFunc');

CREATE TEMP TABLE _counts AS
SELECT file_id, process_id, lane, start_ns AS ts_ns, sum(sum(is_graph)) OVER so_far AS graphs, sum(sum(1 - is_graph)) OVER so_far AS kernels
FROM (
    SELECT * FROM _launches
    UNION ALL
    SELECT file_id, process_id, -1, start_ns, is_graph FROM _launches
    WHERE lane <> -1 AND (file_id, process_id) IN (SELECT (file_id, process_id) FROM range_nesting WHERE lane = -1)
)
WHERE (file_id, process_id) IN (SELECT (file_id, process_id) FROM _launches WHERE is_graph = 1)
GROUP BY file_id, process_id, lane, start_ns
WINDOW so_far AS (PARTITION BY file_id, process_id, lane ORDER BY start_ns);

CREATE TEMP TABLE _ranges AS
SELECT n.range_id, n.parent_range_id, n.file_id, n.process_id, n.lane, n.range_path, n.start_ns, n.end_ns,
    coalesce(b.graphs, 0) AS graphs_before, coalesce(b.kernels, 0) AS kernels_before
FROM (SELECT * FROM range_nesting WHERE end_ns > start_ns AND (file_id, process_id) IN (SELECT (file_id, process_id) FROM _counts)) AS n
ASOF LEFT JOIN _counts AS b
    ON b.file_id = n.file_id AND b.process_id = n.process_id AND b.lane = n.lane AND b.ts_ns < n.start_ns;

CREATE TEMP TABLE _counted AS
SELECT r.*, e.graphs - r.graphs_before AS graphs, e.kernels - r.kernels_before AS kernels
FROM _ranges AS r
ASOF JOIN _counts AS e ON e.file_id = r.file_id AND e.process_id = r.process_id AND e.lane = r.lane AND e.ts_ns < r.end_ns;

CREATE TEMP TABLE _families AS
SELECT file_id, process_id, range_path, count(*) FILTER (graphs > 0) AS graph_count, count(*) AS member_count,
    median(kernels) FILTER (graphs > 0) AS usual_kernels
FROM _counted WHERE graphs + kernels > 0 GROUP BY file_id, process_id, range_path
HAVING graph_count >= getvariable('eager_min_peers') AND 2 * graph_count >= member_count;

CREATE TEMP TABLE _eager AS
SELECT c.range_id, c.parent_range_id, c.kernels, f.graph_count
FROM _counted AS c JOIN _families AS f USING (file_id, process_id, range_path)
WHERE c.graphs = 0 AND c.kernels >= getvariable('eager_min_kernels') AND c.kernels >= 2 * f.usual_kernels;

CREATE TEMP TABLE eager_ranges AS
SELECT e.range_id, r.file_id, r.event_index, r.source, r.name, r.process_id, r.thread_id, r.start_ns, r.end_ns,
    e.kernels::BIGINT AS launch_count,
    e.graph_count || ' ranges like it launch a graph, this one ' || e.kernels::BIGINT || ' kernels' AS detail
FROM _eager AS e JOIN ranges AS r USING (range_id)
WHERE e.parent_range_id IS NULL OR e.parent_range_id NOT IN (SELECT range_id FROM _eager);
