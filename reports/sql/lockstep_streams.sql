-- Streams that start and stop together, the most often first.
SELECT *, count(*) OVER () AS total FROM stream_pairs WHERE is_lockstep ORDER BY matched_count DESC, pair_id LIMIT $limit
