-- When a process did its regular work, as opposed to starting up, and what says so (`hot_by`): its epochs but the first ones
-- (requests, steps, ranges), else ranges that repeat, else from the first tenth of its launches to the last one.
CREATE TEMP TABLE _epochs AS
SELECT -1 AS clock_id, process_id, 1 AS preference, epoch_kind AS hot_by,
    min(start_ns) FILTER (epoch_index >= getvariable('warm_up_epochs')) AS start_ns, max(coalesce(end_ns, start_ns)) AS end_ns
FROM epochs WHERE epoch_kind IN ('request', 'step', 'range family', 'repeated range') GROUP BY process_id, epoch_kind;

CREATE TEMP TABLE _members AS
SELECT n.process_id, n.range_path, n.start_ns, n.end_ns,
    regexp_matches(r.name, '^(ProfilerStep|(train|training|global|opt|optimizer)?[ _-]?(step|iter|iteration))[^0-9A-Za-z]*[0-9]+$', 'i') AS is_step,
    row_number() OVER (PARTITION BY n.process_id, n.file_id, n.lane, n.range_path ORDER BY n.start_ns, n.range_id) AS place
FROM range_nesting AS n JOIN ranges AS r USING (range_id)
WHERE regexp_matches(r.name, '[0-9]') AND n.end_ns > n.start_ns AND (n.depth = 0 OR is_step);

CREATE TEMP TABLE _families AS
SELECT -1 AS clock_id, process_id, CASE WHEN bool_or(is_step) THEN 2 ELSE 3 END AS preference,
    CASE WHEN bool_or(is_step) THEN 'step' ELSE 'range family' END AS hot_by,
    min(start_ns) FILTER (place > getvariable('warm_up_epochs')) AS start_ns, max(end_ns) AS end_ns
FROM _members GROUP BY process_id, range_path HAVING count(*) >= 3;

CREATE TEMP TABLE _launches AS
SELECT clock_id, process_id, 4 AS preference, 'launches' AS hot_by,
    quantile_disc(start_ns, 0.1) AS start_ns, max(end_ns) AS end_ns, min(start_ns) AS first_ns, count(*) AS launch_count
FROM launch_calls GROUP BY clock_id, process_id;

CREATE TEMP TABLE _candidates AS
SELECT c.*, coalesce(least(c.end_ns, l.end_ns) - greatest(c.start_ns, l.first_ns) >= 0.25 * (l.end_ns - l.first_ns), true) AS holds_work
FROM (SELECT * FROM _epochs UNION ALL SELECT * FROM _families) AS c
LEFT JOIN _launches AS l ON l.clock_id = c.clock_id AND l.process_id IS NOT DISTINCT FROM c.process_id
UNION ALL
SELECT clock_id, process_id, preference, hot_by, start_ns, end_ns, launch_count >= getvariable('hot_min_launches') FROM _launches;

CREATE TEMP TABLE hot_windows AS
SELECT clock_id, process_id, hot_by, start_ns, end_ns FROM _candidates
WHERE holds_work AND end_ns > start_ns
QUALIFY row_number() OVER (PARTITION BY clock_id, process_id ORDER BY preference, end_ns - start_ns DESC, start_ns) = 1;
