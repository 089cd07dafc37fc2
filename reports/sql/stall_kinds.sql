-- What stalls of each kind cost each process, those of the regular work first.
SELECT *, count(*) OVER () AS total FROM stall_costs WHERE is_total
ORDER BY hot_ns DESC NULLS LAST, union_ns DESC, process_id, stall_kind LIMIT $limit
