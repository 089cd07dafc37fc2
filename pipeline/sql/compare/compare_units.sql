-- Epochs of all processes as units to draw from: of one process after the other, by rank, then by first start. More than
-- `compare_units` epochs are put together in groups of consecutive ones.
CREATE TEMP TABLE _numbered AS
SELECT e.process_id, e.epoch_index, e.epoch_kind, e.start_ns, e.end_ns, f.first_ns,
    lead(e.start_ns) OVER (PARTITION BY e.process_id ORDER BY e.start_ns, e.epoch_index) AS next_ns,
    row_number() OVER (ORDER BY r.rank NULLS LAST, f.first_ns, e.process_id, e.start_ns, e.epoch_index) - 1 AS place,
    count(*) OVER () AS total
FROM epochs AS e
JOIN (SELECT process_id, min(start_ns) AS first_ns FROM epochs GROUP BY process_id) AS f USING (process_id)
LEFT JOIN compare_ranks AS r USING (process_id);

CREATE TEMP TABLE compare_units AS
SELECT process_id, epoch_kind, epoch_index, start_ns, coalesce(next_ns, end_ns) AS until_ns,
    CASE WHEN coalesce(end_ns, next_ns) >= start_ns THEN coalesce(end_ns, next_ns) - start_ns END AS duration_ns,
    CASE WHEN total <= getvariable('compare_units') THEN place ELSE place * getvariable('compare_units') // total END AS unit
FROM _numbered;
