-- Which range lies in which: annotations, steps, NVTX ranges and the like. Operators are told by call paths, and a device's
-- ranges lie where its operations ran, not where they were called. On one lane (file and thread) ranges nest: a range's
-- parent is the last one opened before it that is one level up. A range that outlives its parent is none of its children:
-- the lane mixes threads, and it starts a lane of its own.
CREATE TEMP TABLE _nestable AS
SELECT range_id, file_id, process_id, coalesce(thread_id, -1) AS lane, start_ns, end_ns FROM ranges
WHERE clock_aligned AND start_ns IS NOT NULL AND coalesce(end_ns >= start_ns, true)
    AND coalesce(range_kind, '') NOT IN ('operator', 'python', 'gpu');

-- A mark ends where it begins: its end is the last of what happens at that instant, and it holds nothing.
CREATE TEMP TABLE _edges AS
SELECT *, start_ns AS ts_ns, 1 AS step, 0 AS is_late FROM _nestable
UNION ALL
SELECT *, end_ns, -1, CASE WHEN end_ns = start_ns THEN 1 ELSE 0 END FROM _nestable WHERE end_ns IS NOT NULL;

-- At one instant ends come before starts; of two ranges that start together the longer one is the outer.
CREATE TEMP TABLE _depths AS
SELECT * EXCLUDE (ts_ns, is_late), depth - 1 AS depth FROM (
    SELECT *, sum(step) OVER (
        PARTITION BY file_id, lane
        ORDER BY ts_ns, is_late, step, coalesce(end_ns, 9223372036854775807) DESC, range_id
    ) AS depth,
    row_number() OVER (
        PARTITION BY file_id, lane
        ORDER BY ts_ns, is_late, step, coalesce(end_ns, 9223372036854775807) DESC, range_id
    ) AS place
    FROM _edges
)
WHERE step = 1;

CREATE TEMP TABLE _parents AS
SELECT
    c.range_id, c.process_id, c.file_id, c.lane, c.start_ns, c.end_ns,
    CASE WHEN coalesce(p.end_ns >= c.end_ns, p.end_ns IS NULL AND p.range_id IS NOT NULL) THEN p.range_id END AS parent_range_id
FROM _depths AS c
ASOF LEFT JOIN _depths AS p
    ON p.file_id = c.file_id AND p.lane = c.lane AND p.depth = c.depth - 1 AND p.place <= c.place;

CREATE TEMP TABLE range_nesting AS
WITH RECURSIVE nested AS (
    SELECT
        p.range_id, p.process_id, p.file_id, p.lane, p.start_ns, p.end_ns, p.parent_range_id, 0 AS depth,
        regexp_replace(regexp_replace(r.name, '^((?:request|req)[^0-9A-Za-z]+).+$', '\1#'), '[0-9]+', '#', 'g') AS range_path,
        q.request_id
    FROM _parents AS p JOIN ranges AS r USING (range_id) LEFT JOIN request_ranges AS q USING (range_id)
    WHERE p.parent_range_id IS NULL
    UNION ALL
    SELECT
        p.range_id, p.process_id, p.file_id, p.lane, p.start_ns, p.end_ns, p.parent_range_id, n.depth + 1,
        n.range_path || ' > '
            || regexp_replace(regexp_replace(r.name, '^((?:request|req)[^0-9A-Za-z]+).+$', '\1#'), '[0-9]+', '#', 'g'),
        coalesce(q.request_id, n.request_id)
    FROM nested AS n
    JOIN _parents AS p ON p.parent_range_id = n.range_id
    JOIN ranges AS r ON r.range_id = p.range_id
    LEFT JOIN request_ranges AS q ON q.range_id = p.range_id
    WHERE n.depth < 200
)
SELECT * FROM nested;
