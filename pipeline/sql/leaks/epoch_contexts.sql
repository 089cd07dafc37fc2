-- What epochs are like besides their requests, as names and values: the ranges around and within them, the number, domain
-- and attributes (`json`) of their own range, and the labels of a server's metrics, where one value alone was in use.
CREATE TEMP TABLE _own AS
SELECT e.process_id, e.epoch_index, min(r.range_id) AS range_id
FROM epochs AS e JOIN ranges AS r ON r.process_id = e.process_id AND r.start_ns = e.start_ns AND r.name = e.epoch_name
WHERE r.clock_aligned
GROUP BY e.process_id, e.epoch_index
UNION
SELECT e.process_id, e.epoch_index, min(s.range_id)
FROM epochs AS e JOIN request_spans AS s ON s.request_id = e.request_id AND (s.process_id = e.process_id OR s.process_id IS NULL)
WHERE s.range_id IS NOT NULL
GROUP BY e.process_id, e.epoch_index;

CREATE TEMP TABLE _within AS
SELECT DISTINCT n.process_id, coalesce(q.epoch_index, e.epoch_index) AS epoch_index,
    'range ' || trim(regexp_extract(n.range_path, '[^>]*$')) AS name
FROM range_nesting AS n
ASOF JOIN epochs AS e ON e.process_id = n.process_id AND e.start_ns <= n.start_ns
LEFT JOIN epochs AS q ON q.process_id = n.process_id AND q.request_id = n.request_id
WHERE n.range_id NOT IN (SELECT range_id FROM _own);

CREATE TEMP TABLE _telling AS
SELECT w.process_id, w.name FROM (SELECT process_id, name, count(*) AS held FROM _within GROUP BY ALL) AS w
JOIN (SELECT process_id, count(*) AS epoch_count FROM epochs GROUP BY ALL) AS c USING (process_id)
WHERE w.held BETWEEN 2 AND c.epoch_count - 1
QUALIFY row_number() OVER (PARTITION BY w.process_id ORDER BY w.held DESC, w.name) <= 100;

CREATE TEMP TABLE _labels AS
SELECT file_id, labels, unnest(map_entries(TRY_CAST(TRY_CAST(labels AS JSON) AS MAP(VARCHAR, VARCHAR)))) AS entry
FROM (SELECT DISTINCT file_id, labels FROM metrics WHERE source LIKE 'prometheus%' AND clock_aligned AND labels LIKE '{"%');

CREATE TEMP TABLE _keys AS
SELECT file_id, entry.key AS label FROM _labels WHERE entry.key NOT IN ('le', 'quantile', 'instance', 'job')
GROUP BY ALL HAVING count(DISTINCT entry.value) BETWEEN 2 AND 24;

-- A counter's label is in use where it has risen since the scrape before, a gauge's where it is not 0.
CREATE TEMP TABLE _scraped AS
SELECT file_id, ts_ns, labels, CASE WHEN regexp_matches(metric, '_(total|count|sum|bucket)$') THEN coalesce(value > before, false)
    ELSE value <> 0 END AS is_used
FROM (
    SELECT file_id, ts_ns, metric, labels, value, lag(value) OVER (PARTITION BY file_id, metric, labels ORDER BY ts_ns) AS before
    FROM metrics WHERE ts_ns IS NOT NULL AND clock_aligned AND (file_id, labels) IN (SELECT (file_id, labels) FROM _labels)
        AND NOT ends_with(metric, '_created')
);

CREATE TEMP TABLE _in_use AS
SELECT s.file_id, s.ts_ns, k.label, min(l.entry.value) AS value
FROM _scraped AS s
JOIN _labels AS l ON l.file_id = s.file_id AND l.labels = s.labels
JOIN _keys AS k ON k.file_id = l.file_id AND k.label = l.entry.key
WHERE s.is_used
GROUP BY s.file_id, s.ts_ns, k.label
HAVING count(DISTINCT l.entry.value) = 1;

-- The last scrape within an epoch, else the first one after it.
CREATE TEMP TABLE _scrapes AS SELECT DISTINCT file_id, ts_ns FROM _scraped;

CREATE TEMP TABLE _looked AS
SELECT e.process_id, e.epoch_index, e.file_id, CASE WHEN b.ts_ns >= e.start_ns THEN b.ts_ns ELSE a.ts_ns END AS ts_ns
FROM (
    SELECT process_id, epoch_index, start_ns, end_ns, unnest((SELECT list(DISTINCT file_id) FROM _keys)) AS file_id
    FROM epochs WHERE end_ns IS NOT NULL
) AS e
ASOF LEFT JOIN _scrapes AS b ON b.file_id = e.file_id AND b.ts_ns <= e.end_ns
ASOF LEFT JOIN _scrapes AS a ON a.file_id = e.file_id AND a.ts_ns >= e.end_ns;

CREATE TEMP TABLE epoch_contexts AS
SELECT o.process_id, o.epoch_index, 'inside' AS name, regexp_replace(n.range_path, ' > [^>]*$', '') AS value
FROM _own AS o JOIN range_nesting AS n USING (range_id) WHERE contains(n.range_path, ' > ')
UNION ALL
SELECT o.process_id, o.epoch_index, 'domain', r.domain FROM _own AS o JOIN ranges AS r USING (range_id) WHERE r.domain <> ''
UNION ALL
SELECT o.process_id, o.epoch_index, 'json', r.attributes FROM _own AS o JOIN ranges AS r USING (range_id) WHERE r.attributes LIKE '{"%'
UNION ALL
SELECT process_id, epoch_index, nullif(trim(regexp_extract(epoch_name, '^[^0-9]*'), ' :=_#-'), ''), regexp_extract(epoch_name, '[0-9]+')
FROM epochs WHERE request_id IS NULL AND regexp_matches(epoch_name, '^[^0-9]*[A-Za-z][^0-9]*[0-9]+[^0-9]*$')
UNION ALL
SELECT w.process_id, w.epoch_index, w.name, 'present' FROM _within AS w SEMI JOIN _telling AS t USING (process_id, name)
UNION ALL
SELECT l.process_id, l.epoch_index, u.label, u.value FROM _looked AS l JOIN _in_use AS u USING (file_id, ts_ns);
