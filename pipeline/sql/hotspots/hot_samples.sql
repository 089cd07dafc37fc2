-- Stack samples by event, process and call path, heaviest processes apart. Bytes that a tool adds up by stack are no samples.
-- Two files of one time and process may hold the same samples (perf.data and its text): the one with most counts.
CREATE TEMP TABLE _spans AS
SELECT source, event, process_id, file_id, sum(sample_count) AS samples, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
FROM stack_samples WHERE unit IS DISTINCT FROM 'bytes'
GROUP BY source, event, process_id, file_id;

CREATE TEMP TABLE _twice AS
SELECT DISTINCT s.source, s.event, s.process_id, s.file_id
FROM _spans AS s
JOIN _spans AS o ON o.source = s.source AND o.event = s.event AND o.process_id = s.process_id AND o.file_id <> s.file_id
    AND o.first_ns <= s.last_ns AND s.first_ns <= o.last_ns AND (o.samples, -o.file_id) > (s.samples, -s.file_id);

-- What a sample weighs: its period where there is one; a tracepoint is counted, its period says nothing.
CREATE TEMP TABLE _weighed AS
WITH chosen AS (
    SELECT s.*, s.source = 'perf' AND regexp_full_match(s.event, '[A-Za-z_][\w-]*:[A-Za-z_]\w*')
        AND NOT regexp_full_match(s.event, '[^:]*:[ukhGHIpPSDWebR]+') AS is_tracepoint
    FROM stack_samples AS s
    ANTI JOIN _twice AS t ON t.file_id = s.file_id AND t.source = s.source AND t.event = s.event AND t.process_id = s.process_id
    WHERE s.unit IS DISTINCT FROM 'bytes'
)
SELECT source, event, process_id, call_path_id, sum(sample_count)::HUGEINT AS call_count,
    sum(CASE WHEN is_tracepoint THEN sample_count ELSE coalesce(nullif(weight, 0), sample_count) END)::HUGEINT AS amount,
    max(unit) FILTER (weight > 0 AND NOT is_tracepoint) AS unit
FROM chosen GROUP BY source, event, process_id, call_path_id;

CREATE TEMP TABLE _kept AS
SELECT source, event, process_id FROM _weighed GROUP BY source, event, process_id
QUALIFY row_number() OVER (PARTITION BY source, event ORDER BY sum(amount) DESC, process_id NULLS LAST)
    <= getvariable('hotspot_places');

CREATE TEMP TABLE hot_samples AS
SELECT w.source, w.event, coalesce(max(w.unit) OVER (PARTITION BY w.source, w.event), 'samples') AS unit, k.process_id,
    NULL::INTEGER AS device_index, w.call_path_id, w.call_count, w.amount
FROM _weighed AS w
LEFT JOIN _kept AS k ON k.source = w.source AND k.event = w.event AND k.process_id IS NOT DISTINCT FROM w.process_id;
