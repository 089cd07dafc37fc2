-- Allocator pools at the last dump, the largest first, with the totals over all pools.
WITH _pools AS (
    SELECT process_id, device_index, pool_id, segment_type, count(*) AS segments, sum(total_bytes) AS reserved,
           sum(allocated_bytes) AS allocated, sum(active_bytes - allocated_bytes) AS pending
    FROM segments WHERE dump_index = 0 GROUP BY ALL
),
_free AS (
    SELECT s.process_id, s.device_index, s.pool_id, s.segment_type,
           sum(b.allocated_bytes) AS free, count(*) AS free_count, max(b.allocated_bytes) AS largest
    FROM blocks b JOIN segments s
      ON s.file_id = b.file_id AND s.dump_index = b.dump_index AND s.address = b.segment_address
     AND s.process_id IS NOT DISTINCT FROM b.process_id AND s.device_index IS NOT DISTINCT FROM b.device_index
    WHERE b.block_state = 'inactive' AND b.dump_index = 0
    GROUP BY ALL
)
SELECT p.*, f.free, f.free_count, f.largest, count(*) OVER () AS pools,
       sum(p.segments) OVER () AS all_segments, sum(p.reserved) OVER () AS all_reserved,
       sum(p.allocated) OVER () AS all_allocated, sum(p.pending) OVER () AS all_pending,
       sum(f.free) OVER () AS all_free, sum(f.free_count) OVER () AS all_free_count, max(f.largest) OVER () AS all_largest
FROM _pools p LEFT JOIN _free f
  ON f.process_id IS NOT DISTINCT FROM p.process_id AND f.device_index IS NOT DISTINCT FROM p.device_index
 AND f.pool_id IS NOT DISTINCT FROM p.pool_id AND f.segment_type IS NOT DISTINCT FROM p.segment_type
ORDER BY p.reserved DESC, p.process_id, p.device_index, p.pool_id, p.segment_type LIMIT $limit
