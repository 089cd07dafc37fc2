-- Frames as the producer named them.
SELECT frame_id, min(function) AS function, min(module) AS module, min(address) AS address FROM frames GROUP BY frame_id
