-- Rank of each process that a file of one rank tells of.
CREATE TEMP TABLE compare_ranks AS
SELECT process_id, any_value(rank) AS rank FROM (
    SELECT process_id, rank FROM capture_files WHERE rank IS NOT NULL AND process_id IS NOT NULL
    UNION SELECT process_id, rank FROM processes WHERE rank IS NOT NULL
    UNION SELECT e.process_id, f.rank FROM (SELECT DISTINCT process_id, file_id FROM memory_events) AS e
    JOIN capture_files AS f USING (file_id) WHERE f.rank IS NOT NULL
) GROUP BY process_id HAVING count(DISTINCT rank) = 1;
