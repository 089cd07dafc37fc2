-- Pages that NUMA nodes handed out.
SELECT *, count(*) OVER () AS total FROM numa_traffic ORDER BY host, node_index LIMIT $limit
