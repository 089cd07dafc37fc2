-- Files whose CUDA calls count, a process: two recorders at once tell of the same calls, and the one that saw more counts.
-- Rows of one `clock_id` can be compared by time: -1 is the capture's clock, else the number of a file that is not on it.
CREATE TEMP TABLE _files AS
SELECT file_id, process_id, CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id, min(start_ns) AS first_ns,
    max(greatest(start_ns, coalesce(end_ns, start_ns))) AS last_ns, count(*) AS call_count
FROM api_calls WHERE api IN ('runtime', 'driver') AND start_ns IS NOT NULL
GROUP BY file_id, process_id, clock_id;

CREATE TEMP TABLE call_files AS
SELECT f.* FROM _files AS f
WHERE NOT EXISTS (
    FROM _files AS o
    WHERE o.process_id IS NOT DISTINCT FROM f.process_id AND o.clock_id = f.clock_id AND o.file_id <> f.file_id
        AND o.first_ns <= f.last_ns AND f.first_ns <= o.last_ns
        AND (o.call_count > f.call_count OR (o.call_count = f.call_count AND o.file_id < f.file_id))
);
