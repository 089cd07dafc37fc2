-- Streams of one device that start and stop together. A burst is what a stream runs without a pause of `burst_gap_ns`; two
-- bursts match when both ends lie within `lockstep_tolerance` of the longer one's duration.
CREATE TEMP TABLE _ops AS
SELECT CASE WHEN clock_aligned THEN -1 ELSE file_id END AS clock_id, process_id, device_index, context_id, stream_id, start_ns, end_ns
FROM gpu_ops WHERE end_ns > start_ns AND stream_id IS NOT NULL AND op <> 'page_fault';

CREATE TEMP TABLE _streams AS
SELECT row_number() OVER (ORDER BY clock_id, process_id, device_index, op_count DESC, context_id, stream_id) AS stream_number, *
FROM (
    SELECT clock_id, process_id, device_index, context_id, stream_id, count(*) AS op_count FROM _ops
    GROUP BY clock_id, process_id, device_index, context_id, stream_id
)
QUALIFY row_number() OVER (PARTITION BY clock_id, process_id, device_index ORDER BY op_count DESC, context_id, stream_id)
        <= getvariable('lockstep_streams')
    AND count(*) OVER (PARTITION BY clock_id, process_id, device_index) > 1;

-- Empty OVERs go along the sorted rows.
CREATE TEMP TABLE _bursts AS
SELECT stream_number, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM (
    SELECT stream_number, start_ns, end_ns, sum(CASE
        WHEN stream_number = last_number AND start_ns <= getvariable('burst_gap_ns') + until_ns THEN 0 ELSE 1 END
    ) OVER (ROWS UNBOUNDED PRECEDING) AS burst
    FROM (
        SELECT stream_number, start_ns, end_ns, lag(stream_number) OVER () AS last_number, lag(end_ns) OVER () AS until_ns
        FROM (
            SELECT s.stream_number, o.start_ns, o.end_ns
            FROM _ops AS o
            JOIN _streams AS s ON s.clock_id = o.clock_id AND s.process_id IS NOT DISTINCT FROM o.process_id
                AND s.device_index IS NOT DISTINCT FROM o.device_index AND s.context_id IS NOT DISTINCT FROM o.context_id
                AND s.stream_id = o.stream_id
            ORDER BY s.stream_number, o.start_ns, o.end_ns
        )
    )
)
GROUP BY stream_number, burst;

CREATE TEMP TABLE _burst_counts AS SELECT stream_number, count(*) AS burst_count FROM _bursts GROUP BY stream_number;

CREATE TEMP TABLE _pairs AS
SELECT a.stream_number, b.stream_number AS other_number, x.burst_count, y.burst_count AS other_burst_count
FROM _streams AS a
JOIN _streams AS b ON b.clock_id = a.clock_id AND b.process_id IS NOT DISTINCT FROM a.process_id
    AND b.device_index IS NOT DISTINCT FROM a.device_index AND b.stream_number > a.stream_number
JOIN _burst_counts AS x ON x.stream_number = a.stream_number
JOIN _burst_counts AS y ON y.stream_number = b.stream_number;

-- The first burst of the other stream that does not start too early is the only one that can match.
CREATE TEMP TABLE _matched AS
SELECT p.stream_number, p.other_number, count(DISTINCT o.start_ns) AS matched_count
FROM (
    SELECT p.stream_number, p.other_number, b.start_ns, b.end_ns,
        (getvariable('lockstep_tolerance') * (b.end_ns - b.start_ns))::BIGINT AS slack_ns
    FROM _pairs AS p JOIN _bursts AS b ON b.stream_number = p.stream_number
    WHERE least(p.burst_count, p.other_burst_count) >= getvariable('lockstep_min_bursts')
) AS p
ASOF JOIN _bursts AS o ON o.stream_number = p.other_number AND o.start_ns >= p.start_ns - p.slack_ns
WHERE o.start_ns <= p.start_ns + p.slack_ns AND abs(o.end_ns - p.end_ns) <= p.slack_ns
GROUP BY p.stream_number, p.other_number;

CREATE TEMP TABLE stream_pairs_made AS
SELECT row_number() OVER (ORDER BY p.stream_number, p.other_number) - 1 AS pair_id, a.process_id, a.device_index, a.stream_id,
    b.stream_id AS other_stream_id, p.burst_count, p.other_burst_count,
    coalesce(m.matched_count, 0) AS matched_count,
    coalesce(m.matched_count, 0) / greatest(p.burst_count, p.other_burst_count) AS lockstep_ratio,
    coalesce(m.matched_count, 0) >= getvariable('lockstep_min_ratio') * greatest(p.burst_count, p.other_burst_count) AS is_lockstep
FROM _pairs AS p
JOIN _streams AS a ON a.stream_number = p.stream_number
JOIN _streams AS b ON b.stream_number = p.other_number
LEFT JOIN _matched AS m ON m.stream_number = p.stream_number AND m.other_number = p.other_number
WHERE least(p.burst_count, p.other_burst_count) >= getvariable('lockstep_min_bursts');
