-- Where the time goes: calls by call path and range, with the function at the leaf of the path.
WITH _costliest AS (
    SELECT *, count(*) OVER () AS total FROM stall_costs WHERE NOT is_total
    ORDER BY hot_ns DESC NULLS LAST, union_ns DESC, cost_id LIMIT $limit
)
SELECT c.*, f.function AS leaf_function, f.file AS leaf_file, f.line AS leaf_line
FROM _costliest AS c
LEFT JOIN call_paths AS p USING (call_path_id)
LEFT JOIN frames AS f ON f.frame_id = p.frame_ids[-1]
ORDER BY c.hot_ns DESC NULLS LAST, c.union_ns DESC, c.cost_id
