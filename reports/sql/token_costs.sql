-- What a token costs, by process and model.
SELECT *, count(*) OVER () AS total FROM token_memory ORDER BY token_count DESC NULLS LAST, process_id, model, memory_side LIMIT $limit
