-- How the innermost range of a lane changes: its number less the one it replaces, and whether a lane opened or closed.
CREATE TEMP TABLE range_changes AS
SELECT process_id, file_id, lane, start_ns AS ts_ns,
    range_id - coalesce(parent_range_id, 0) AS sum_change, CASE WHEN parent_range_id IS NULL THEN 1 ELSE 0 END AS count_change
FROM range_nesting
UNION ALL
SELECT process_id, file_id, lane, end_ns,
    coalesce(parent_range_id, 0) - range_id, CASE WHEN parent_range_id IS NULL THEN -1 ELSE 0 END
FROM range_nesting WHERE end_ns IS NOT NULL;
