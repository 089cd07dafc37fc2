-- What NUMA nodes hold, by part of memory and process, the largest first.
SELECT *, count(*) OVER () AS total FROM numa_memory
ORDER BY process_id IS NOT NULL, memory_part, last_bytes DESC, host, process_id, node_index LIMIT $limit
