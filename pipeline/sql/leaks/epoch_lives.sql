-- Judged allocations with the epochs they were allocated and freed in. `epoch_index` is the allocation's own request where
-- it is known, else the epoch by time; -1 is before the first epoch, null before the window. `kept_size` is the requested
-- size where some allocation of that size survives on the call path, `range_key` likewise the range path.
CREATE TEMP TABLE _request_epochs AS
SELECT process_id, request_id, min(epoch_index) AS epoch_index FROM epochs WHERE request_id IS NOT NULL GROUP BY ALL;

-- When all epochs begun so far have ended by their own word; null while one runs, or where only the next start is known.
CREATE TEMP TABLE _own_ends AS
SELECT process_id, start_ns,
    max(coalesce(end_ns, 9223372036854775807)) OVER starts AS ended_ns,
    lead(start_ns) OVER starts IS NULL AS is_last
FROM named_epochs
WINDOW starts AS (PARTITION BY process_id ORDER BY start_ns);

CREATE TEMP TABLE _kept_ranges AS
SELECT DISTINCT process_id, device_index, level, memory_kind, path_key, range_key FROM judged_allocations
WHERE is_live AND range_path IS NOT NULL;

CREATE TEMP TABLE _placed AS
SELECT a.* REPLACE (k.range_key AS range_key), r.epoch_index AS own_epoch_index, coalesce(e.epoch_index, -1) AS before_index, o.is_last,
    coalesce(a.alloc_ts_ns > o.ended_ns, false) AS is_after_end
FROM judged_allocations AS a
ASOF LEFT JOIN epochs AS e ON e.process_id = a.process_id AND e.start_ns <= a.alloc_ts_ns
ASOF LEFT JOIN _own_ends AS o ON o.process_id = a.process_id AND o.start_ns <= a.alloc_ts_ns
LEFT JOIN _request_epochs AS r ON r.process_id = a.process_id AND r.request_id = a.request_id
LEFT JOIN _kept_ranges AS k ON k.range_key = a.range_key AND k.path_key = a.path_key AND k.level = a.level
    AND k.memory_kind = a.memory_kind AND k.process_id IS NOT DISTINCT FROM a.process_id
    AND k.device_index IS NOT DISTINCT FROM a.device_index;

-- What is allocated after the last epoch's end belongs to it on a call path that allocates between epochs; on one that
-- does so inside epochs alone, to an epoch that still ran at the dump and is not in the log.
CREATE TEMP TABLE epoch_lives AS
SELECT
    a.* EXCLUDE (alloc_ts_ns, gone_ts_ns, own_epoch_index, before_index, is_last, is_after_end, is_unfinished),
    CASE WHEN a.alloc_ts_ns IS NOT NULL THEN coalesce(a.own_epoch_index, a.before_index + a.is_unfinished::BIGINT) END AS epoch_index,
    CASE WHEN a.alloc_ts_ns IS NOT NULL THEN a.before_index + a.is_unfinished::BIGINT END AS time_epoch_index,
    CASE WHEN NOT a.is_live THEN coalesce(f.epoch_index, -1) END AS free_epoch_index,
    CASE WHEN bool_or(a.is_live) OVER (
        PARTITION BY a.process_id, a.device_index, a.level, a.memory_kind, a.path_key, a.size_key
    ) THEN a.size_key END AS kept_size
FROM (
    SELECT *, is_after_end AND is_last AND NOT bool_or(is_after_end AND NOT is_last) OVER (
        PARTITION BY process_id, device_index, level, memory_kind, path_key) AS is_unfinished
    FROM _placed
) AS a
ASOF LEFT JOIN epochs AS f ON f.process_id = a.process_id AND f.start_ns <= a.gone_ts_ns;
