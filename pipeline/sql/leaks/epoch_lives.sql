-- Judged allocations with the epochs they were allocated and freed in. `epoch_index` is the allocation's own request where
-- it is known, else the epoch by time; -1 is before the first epoch, null before the window. `kept_size` is the requested
-- size where some allocation of that size survives on the call path.
CREATE TEMP TABLE _request_epochs AS
SELECT process_id, request_id, min(epoch_index) AS epoch_index FROM epochs WHERE request_id IS NOT NULL GROUP BY ALL;

CREATE TEMP TABLE epoch_lives AS
SELECT
    a.* EXCLUDE (alloc_ts_ns, gone_ts_ns),
    CASE WHEN a.alloc_ts_ns IS NOT NULL THEN coalesce(r.epoch_index, e.epoch_index, -1) END AS epoch_index,
    CASE WHEN a.alloc_ts_ns IS NOT NULL THEN coalesce(e.epoch_index, -1) END AS time_epoch_index,
    CASE WHEN NOT a.is_live THEN coalesce(f.epoch_index, -1) END AS free_epoch_index,
    CASE WHEN bool_or(a.is_live) OVER (
        PARTITION BY a.process_id, a.device_index, a.level, a.memory_kind, a.path_key, a.size_key
    ) THEN a.size_key END AS kept_size
FROM judged_allocations AS a
ASOF LEFT JOIN epochs AS e ON e.process_id = a.process_id AND e.start_ns <= a.alloc_ts_ns
ASOF LEFT JOIN epochs AS f ON f.process_id = a.process_id AND f.start_ns <= a.gone_ts_ns
LEFT JOIN _request_epochs AS r ON r.process_id = a.process_id AND r.request_id = a.request_id;
