-- Counts of ingest, plus what the replay and the dump disagree on.
CREATE TEMP TABLE _differences_found AS
SELECT difference AS name, count(*) AS occurrence_count,
    CASE difference
        WHEN 'block_without_event' THEN 'blocks in use at the dump whose allocation was not recorded: from before the history, or overwritten'
        WHEN 'ended_at_unknown_time' THEN 'given back by events without a time: left out of the tables'
        WHEN 'live_event_without_block' THEN 'allocations that the history leaves live and the dump does not have'
        ELSE 'blocks whose requested size is not the recorded one'
    END AS detail,
    CASE difference WHEN 'block_without_event' THEN 'info' ELSE 'data_loss' END AS severity
FROM tensor_lives WHERE difference IS NOT NULL GROUP BY difference
UNION ALL
SELECT difference, count(*),
    CASE difference WHEN 'segment_without_event' THEN 'segments at the dump whose allocation was not recorded'
        WHEN 'segment_ended_at_unknown_time' THEN 'segments given back by events without a time: left out of the tables'
        ELSE 'segments that the history leaves live and the dump does not have' END,
    CASE difference WHEN 'segment_without_event' THEN 'info' ELSE 'data_loss' END
FROM segment_lives WHERE difference IS NOT NULL GROUP BY difference
UNION ALL
SELECT 'free_inferred', count(*), 'the address was allocated again: its free was not recorded', 'data_loss'
FROM tensor_lives WHERE is_free_inferred AND difference IS NULL HAVING count(*) > 0
UNION ALL
SELECT 'host_events_left_out', sum(event_count)::BIGINT,
    'kernel and heap events of files that tell of the same time as another, or on no clock of the capture', 'info'
FROM host_files WHERE NOT is_used HAVING count(*) > 0
UNION ALL
SELECT 'driver_call_failed', count(*), 'driver calls that returned an error; they hold no memory', 'info'
FROM memory_events WHERE level = 'driver' AND return_code <> 0 HAVING count(*) > 0
UNION ALL
SELECT 'profiled_launches_unlinked', count(*), 'profiled launches that no kernel of the traces is for certain', 'info'
FROM (SELECT DISTINCT file_id, launch_index FROM kernel_metrics) AS m
ANTI JOIN kernel_links AS k ON k.file_id = m.file_id AND k.launch_index = m.launch_index
WHERE EXISTS (SELECT 1 FROM gpu_ops WHERE op = 'kernel') HAVING count(*) > 0;

CREATE TEMP TABLE diagnostics_made AS
SELECT stage, file_id, name, severity, occurrence_count, detail FROM diagnostics WHERE stage = 'ingest'
UNION ALL
SELECT 'lifetimes', -1, name, severity, occurrence_count, detail FROM _differences_found;
