-- The innermost open range of each thread from one moment to the next (see range_timeline).
CREATE TEMP TABLE thread_timeline AS
SELECT process_id, file_id, lane AS thread_id, ts_ns, CASE WHEN open_count = 1 THEN open_sum::BIGINT END AS range_id FROM (
    SELECT process_id, file_id, lane, ts_ns,
        sum(sum(count_change)) OVER moments AS open_count, sum(sum(sum_change)) OVER moments AS open_sum
    FROM range_changes WHERE lane >= 0 GROUP BY process_id, file_id, lane, ts_ns
    WINDOW moments AS (PARTITION BY process_id, file_id, lane ORDER BY ts_ns)
);
