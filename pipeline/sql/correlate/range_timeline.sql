-- The innermost open range of each process and file from one moment to the next. `open_count` is how many unrelated
-- ranges (of several threads) are open: only at 1 does time alone say which. While the count is 1, the running sum of
-- opened minus closed range numbers is the innermost range itself.
CREATE TEMP TABLE range_timeline AS
SELECT process_id, file_id, ts_ns, open_count, CASE WHEN open_count = 1 THEN open_sum::BIGINT END AS range_id FROM (
    SELECT process_id, file_id, ts_ns,
        sum(sum(count_change)) OVER moments AS open_count, sum(sum(sum_change)) OVER moments AS open_sum
    FROM range_changes GROUP BY process_id, file_id, ts_ns
    WINDOW moments AS (PARTITION BY process_id, file_id ORDER BY ts_ns)
);
