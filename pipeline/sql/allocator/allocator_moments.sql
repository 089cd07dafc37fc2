-- Moments at which the allocator's state is rebuilt, a process and device: equally many changes apart, the highest points
-- of what it reserved, had handed out and kept waiting for a stream (a millisecond or more), each out-of-memory event (its state is the one before it), the end.
CREATE TEMP TABLE _allocator_changes AS
SELECT DISTINCT process_id, device_index, ts_ns, level, live_bytes
FROM live_bytes WHERE level IN ('tensor', 'segment');

-- Fewer moments where much is live, so that the states together stay within `allocator_rows` rows.
CREATE TEMP TABLE _moment_counts AS
SELECT process_id, device_index,
    greatest(8, least(getvariable('allocator_moments'), getvariable('allocator_rows') // greatest(1, max(live_count)))) AS moment_count
FROM live_bytes WHERE level IN ('tensor', 'segment') GROUP BY process_id, device_index;

CREATE TEMP TABLE _waiting AS
SELECT process_id, device_index, ts_ns, sum(change) OVER (PARTITION BY process_id, device_index ORDER BY ts_ns) AS waiting_bytes
FROM (
    SELECT process_id, device_index, ts_ns, sum(change) AS change
    FROM (
        SELECT process_id, device_index, unnest([free_requested_ts_ns, free_ts_ns]) AS ts_ns, unnest([allocated_bytes, -allocated_bytes]) AS change
        FROM allocations
        WHERE level = 'tensor' AND free_requested_ts_ns IS NOT NULL AND NOT is_free_inferred
            AND coalesce(free_ts_ns - free_requested_ts_ns >= 1000000, true) AND process_id IS NOT NULL AND device_index IS NOT NULL
    )
    WHERE ts_ns IS NOT NULL GROUP BY process_id, device_index, ts_ns
);

CREATE TEMP TABLE _chosen_moments AS
SELECT process_id, device_index, max(ts_ns) AS ts_ns, 'sample' AS moment, 4 AS preference
FROM (
    SELECT process_id, device_index, ts_ns,
        ntile(100000) OVER (PARTITION BY process_id, device_index ORDER BY ts_ns) AS place,
        count(*) OVER (PARTITION BY process_id, device_index) AS change_count
    FROM _allocator_changes
) JOIN _moment_counts USING (process_id, device_index)
GROUP BY process_id, device_index, place * moment_count // (least(change_count, 100000) + 1)
UNION ALL
SELECT process_id, device_index, arg_max(ts_ns, (live_bytes, -ts_ns)), 'peak', 3
FROM _allocator_changes GROUP BY process_id, device_index, level
UNION ALL
SELECT process_id, device_index, arg_max(ts_ns, (waiting_bytes, -ts_ns)), 'peak', 3 FROM _waiting GROUP BY process_id, device_index
UNION ALL
SELECT process_id, device_index, max(ts_ns), 'end', 1 FROM _allocator_changes GROUP BY process_id, device_index
UNION ALL
SELECT DISTINCT process_id, device_index, ts_ns, 'oom', 2
FROM oom_events_made WHERE level <> 'host' AND process_id IS NOT NULL AND device_index IS NOT NULL AND ts_ns IS NOT NULL;

CREATE TEMP TABLE allocator_moments AS
SELECT row_number() OVER (ORDER BY process_id, device_index, ts_ns) AS moment_id, process_id, device_index, ts_ns, moment
FROM (
    SELECT DISTINCT ON (process_id, device_index, ts_ns) process_id, device_index, ts_ns, moment
    FROM _chosen_moments ORDER BY process_id, device_index, ts_ns, preference
);
