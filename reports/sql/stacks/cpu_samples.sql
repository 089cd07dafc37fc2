-- Stack samples, each event apart as a level is elsewhere: samples of perf and alike, not bytes that a tool adds up by stack.
-- Of two files that hold one process's samples of one time (perf.data and its text) the one with most counts.
WITH _samples AS (
    SELECT * FROM stack_samples WHERE unit IS DISTINCT FROM 'bytes'
),
_spans AS (
    SELECT source, event, process_id, file_id, sum(sample_count) AS samples, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
    FROM _samples GROUP BY ALL
),
_twice AS (
    SELECT DISTINCT s.source, s.event, s.process_id, s.file_id FROM _spans s JOIN _spans o
      ON o.source = s.source AND o.event = s.event AND o.process_id = s.process_id AND o.file_id <> s.file_id
     AND o.first_ns <= s.last_ns AND s.first_ns <= o.last_ns AND (o.samples, -o.file_id) > (s.samples, -s.file_id)
)
SELECT event AS level, process_id, NULL::INTEGER AS device_index, call_path_id, sample_count AS weight
FROM _samples s ANTI JOIN _twice t USING (source, event, process_id, file_id)
