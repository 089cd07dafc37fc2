-- Windows that objectives are judged over, a source: sliding ones of a length and of a number of requests, and those
-- before, during and after a period of capture.yaml (as long as it, and no shorter than a sliding window). [start, end).
-- Windows begin a fifth of their length apart, further where there are very many requests or a very long time. A sliding
-- window holds positions from first_position + window_index * step on, `length` of them: times, or numbers of requests.
CREATE TEMP TABLE _moments AS
SELECT source, at_ns, clock_aligned, request_id FROM served_requests WHERE at_ns IS NOT NULL
UNION ALL
-- What a scrape counted happened before it: the windows of a server are (start, end].
SELECT DISTINCT 'prometheus', ts_ns - (increase IS NOT NULL)::INTEGER, clock_aligned, NULL FROM server_steps WHERE ts_ns IS NOT NULL;

CREATE TEMP TABLE _spans AS
SELECT source, min(at_ns) AS first_ns, max(at_ns) AS last_ns, count(*) AS moment_count,
    greatest(1, least(5, 2500000 // count(*))) AS overlap
FROM _moments GROUP BY source;

CREATE TEMP TABLE _sliding AS
SELECT source, 'time' AS window_kind, first_ns AS first_position, last_ns - first_ns + 1 AS positions, length,
    greatest(length // overlap, (last_ns - first_ns) // 20000) AS step
FROM (SELECT *, getvariable('window_seconds')::BIGINT * 1000000000 AS length FROM _spans)
UNION ALL
SELECT source, 'count', 0, moment_count, length, greatest(length // overlap, moment_count // 20000)
FROM (SELECT *, getvariable('window_requests')::BIGINT AS length FROM _spans)
WHERE source <> 'prometheus' AND moment_count > length;

CREATE TEMP TABLE _indexed AS
SELECT *, unnest(range(greatest(0, (positions - length + step - 1) // step) + 1)) AS window_index FROM _sliding;

CREATE TEMP TABLE _numbered AS
SELECT source, at_ns, row_number() OVER (PARTITION BY source ORDER BY at_ns, request_id) - 1 AS number FROM _moments WHERE source <> 'prometheus';

CREATE TEMP TABLE _period AS
SELECT name, start_ns, end_ns, greatest(end_ns - start_ns, getvariable('window_seconds')::BIGINT * 1000000000) AS around_ns
FROM capture_notes WHERE fact = 'period' AND text_value <> 'configuration';

CREATE TEMP TABLE slo_windows AS
SELECT row_number() OVER (ORDER BY source, window_kind, start_ns, end_ns, period) AS window_id, * FROM (
    SELECT source, window_kind, NULL AS period, first_position, length, step, window_index,
        first_position + window_index * step AS start_ns, first_position + window_index * step + length AS end_ns
    FROM _indexed WHERE window_kind = 'time'
    UNION ALL
    SELECT i.source, i.window_kind, NULL, i.first_position, i.length, i.step, i.window_index, n.at_ns, coalesce(e.at_ns, s.last_ns + 1)
    FROM _indexed AS i
    JOIN _spans AS s USING (source)
    JOIN _numbered AS n ON n.source = i.source AND n.number = i.window_index * i.step
    LEFT JOIN _numbered AS e ON e.source = i.source AND e.number = i.window_index * i.step + i.length
    WHERE i.window_kind = 'count'
    UNION ALL
    SELECT s.source, p.window_kind, p.name, NULL, NULL, NULL, NULL, p.start_ns, p.end_ns
    FROM (SELECT DISTINCT source FROM _moments WHERE clock_aligned) AS s
    JOIN (
        SELECT 'before' AS window_kind, name, start_ns - around_ns AS start_ns, start_ns AS end_ns FROM _period
        UNION ALL SELECT 'during', name, start_ns, end_ns FROM _period
        UNION ALL SELECT 'after', name, end_ns, end_ns + around_ns FROM _period
    ) AS p ON true
    UNION ALL
    -- Scrapes without times have one window: all since the server started.
    SELECT 'prometheus', 'server', NULL, NULL, NULL, NULL, NULL, NULL, NULL
    WHERE EXISTS (FROM server_steps) AND NOT EXISTS (FROM server_steps WHERE ts_ns IS NOT NULL)
);
