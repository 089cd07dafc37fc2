-- What was given back late, two epochs or more after it was taken, in the range paths that keep survivors, on call paths
-- that keep none: `path_epochs` lacks those, and a cache whose call path changes would look like growth without them.
-- Nothing that lived shorter than the shortest epoch can have outlived one.
CREATE TEMP TABLE _shortest AS
SELECT process_id, min(end_ns - start_ns) AS least_ns FROM epochs WHERE end_ns > start_ns GROUP BY process_id;

CREATE TEMP TABLE _kept AS
SELECT DISTINCT process_id, device_index, level, memory_kind, path_key, range_key FROM epoch_lives WHERE is_live AND range_key IS NOT NULL;

CREATE TEMP TABLE _evicted AS
SELECT a.process_id, a.device_index, a.level, a.memory_kind, (hash(n.range_path) >> 2)::BIGINT AS range_key, a.allocated_bytes,
    a.alloc_ts_ns, coalesce(a.free_requested_ts_ns, a.free_ts_ns) AS gone_ts_ns
FROM allocations AS a
JOIN _shortest AS s ON s.process_id = a.process_id AND coalesce(a.free_requested_ts_ns, a.free_ts_ns) - a.alloc_ts_ns >= s.least_ns
JOIN range_nesting AS n ON n.range_id = a.range_id
WHERE a.level IN ('tensor', 'driver') AND a.memory_kind <> 'static' AND a.alloc_call_path_id IS NOT NULL
    AND (a.process_id, a.level, a.memory_kind, a.alloc_call_path_id) NOT IN (
        SELECT (process_id, level, memory_kind, path_key) FROM _kept WHERE process_id IS NOT NULL)
    AND (hash(n.range_path) >> 2)::BIGINT IN (SELECT range_key FROM _kept);

CREATE TEMP TABLE _aged AS
SELECT e.*, coalesce(s.epoch_index, -1) AS alloc_epoch, coalesce(f.epoch_index, -1) AS free_epoch
FROM _evicted AS e
ASOF LEFT JOIN epochs AS s ON s.process_id = e.process_id AND s.start_ns <= e.alloc_ts_ns
ASOF LEFT JOIN epochs AS f ON f.process_id = e.process_id AND f.start_ns <= e.gone_ts_ns;

CREATE TEMP TABLE range_evictions AS
SELECT process_id, device_index, level, memory_kind, range_key, epoch_index, sum(allocated_bytes)::BIGINT AS allocated_bytes,
    sum(freed_bytes)::BIGINT AS freed_bytes, sum(evicted_count)::BIGINT AS evicted_count, max(evicted_age) AS evicted_age,
    sum(lasting_count)::BIGINT AS lasting_count
FROM (
    SELECT process_id, device_index, level, memory_kind, range_key, alloc_epoch AS epoch_index, allocated_bytes, 0 AS freed_bytes,
        0 AS evicted_count, CAST(NULL AS BIGINT) AS evicted_age, 1 AS lasting_count
    FROM _aged WHERE free_epoch - alloc_epoch >= 2
    UNION ALL
    SELECT process_id, device_index, level, memory_kind, range_key, free_epoch, 0, allocated_bytes, 1, free_epoch - alloc_epoch, 0
    FROM _aged WHERE free_epoch - alloc_epoch >= 2
)
GROUP BY process_id, device_index, level, memory_kind, range_key, epoch_index;
