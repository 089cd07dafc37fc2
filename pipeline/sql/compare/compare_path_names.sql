-- Call paths by what stays the same from run to run: function and file, without line, process id, address and folder of
-- installation. `path_key` stands for the whole path; `frames` are root first, a deep path without its middle.
CREATE TEMP TABLE _used AS
SELECT DISTINCT alloc_call_path_id AS call_path_id FROM allocations WHERE alloc_call_path_id IS NOT NULL;

CREATE TEMP TABLE _places AS
SELECT p.call_path_id, unnest(p.frame_ids) AS frame_id, generate_subscripts(p.frame_ids, 1) AS place
FROM (SELECT call_path_id, min(frame_ids) AS frame_ids FROM call_paths WHERE call_path_id IN (FROM _used) GROUP BY call_path_id) AS p;

CREATE TEMP TABLE _plain AS
SELECT frame_id,
    regexp_replace(left(coalesce(min(function), ''), 400), '0x[0-9a-fA-F]+', '0x#', 'g') AS function,
    regexp_replace(regexp_replace(right(coalesce(min(file), ''), 400), '^.*/(site-packages|dist-packages|python[0-9.]+)/', ''), '[0-9]+', '#', 'g') AS file,
    regexp_replace(regexp_replace(right(coalesce(min(module), ''), 400), '^.*/', ''), '[0-9]{3,}', '#', 'g') AS module
FROM frames WHERE frame_id IN (SELECT frame_id FROM _places) GROUP BY frame_id;

-- Of a file only its last two parts: a checkout may lie elsewhere.
CREATE TEMP TABLE _named AS
SELECT frame_id,
    CASE WHEN function IN ('', '[unknown]') THEN '[' || CASE module WHEN '' THEN 'unknown' ELSE module END || ']'
        WHEN file <> '' THEN function || ' (' || regexp_extract(file, '[^/]*(/[^/]*)?$') || ')'
        ELSE function END AS name
FROM _plain;

CREATE TEMP TABLE compare_path_names AS
SELECT call_path_id, hash(names) AS path_key,
    CASE WHEN len(names) <= getvariable('compare_depth') THEN names
        ELSE names[:getvariable('compare_depth') // 2] || ['[frames cut]'] || names[len(names) - getvariable('compare_depth') // 2 + 2:] END AS frames
FROM (
    SELECT p.call_path_id, list(coalesce(n.name, '[unknown]') ORDER BY p.place) AS names
    FROM _places AS p LEFT JOIN _named AS n USING (frame_id) GROUP BY p.call_path_id
);
