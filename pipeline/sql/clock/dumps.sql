-- Several dumps of one process repeat each other's history: of an earlier dump only the events before the first event of
-- a later one count. `cutoff_ns` null: all events count. `dump_index` 0 is the last dump of the process.
CREATE TEMP TABLE _dump_spans AS
SELECT e.file_id, p.process_id, e.device_index, min(e.ts_ns) AS first_ns, max(e.ts_ns) AS last_ns
FROM memory_events AS e JOIN file_processes AS p USING (file_id)
WHERE e.level = 'tensor' AND e.source <> 'kineto' AND e.ts_ns IS NOT NULL AND p.process_id IS NOT NULL
GROUP BY ALL;

CREATE TEMP TABLE _dump_files AS
SELECT file_id, process_id, max(last_ns) AS last_ns FROM _dump_spans GROUP BY ALL;

CREATE TEMP TABLE dumps AS
SELECT
    a.file_id,
    a.device_index,
    (SELECT count(*) FROM _dump_files AS o
     WHERE o.process_id = f.process_id AND (o.last_ns, o.file_id) > (f.last_ns, f.file_id))::INTEGER AS dump_index,
    (SELECT min(b.first_ns) FROM _dump_spans AS b JOIN _dump_files AS g USING (file_id)
     WHERE b.process_id = a.process_id AND b.device_index = a.device_index
        AND (g.last_ns, g.file_id) > (f.last_ns, f.file_id)) AS cutoff_ns
FROM _dump_spans AS a JOIN _dump_files AS f USING (file_id);
