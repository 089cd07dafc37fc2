-- Self and total by function, whatever the line: self where it is the leaf, total where it is anywhere in the path, once a
-- path however often it calls itself. The functions with most self and those with most total of a place have a row each.
CREATE TEMP TABLE _functions AS
SELECT frame_id, min(function) AS name, min(file) AS file, min(module) AS module FROM frames GROUP BY frame_id;

CREATE TEMP TABLE _named AS
SELECT frame_id, min(frame_id) OVER (PARTITION BY name, file, module) AS function_id FROM _functions;

CREATE TEMP TABLE _lists AS
SELECT call_path_id, min(frame_ids) AS frame_ids FROM call_paths
WHERE call_path_id IN (SELECT call_path_id FROM hot_weights) GROUP BY call_path_id;

CREATE TEMP TABLE _within AS
SELECT e.call_path_id, n.function_id, bool_or(e.is_leaf) AS is_leaf
FROM (
    SELECT call_path_id, unnest(frame_ids) AS frame_id, generate_subscripts(frame_ids, 1) = len(frame_ids) AS is_leaf FROM _lists
) AS e
JOIN _named AS n USING (frame_id)
GROUP BY e.call_path_id, n.function_id;

CREATE TEMP TABLE _summed AS
SELECT w.side, w.source, w.event, w.unit, w.process_id, w.device_index, f.function_id,
    coalesce(sum(w.amount) FILTER (f.is_leaf), 0)::HUGEINT AS self, sum(w.amount)::HUGEINT AS total,
    coalesce(sum(w.call_count) FILTER (f.is_leaf), 0)::HUGEINT AS call_count
FROM hot_weights AS w JOIN _within AS f USING (call_path_id)
GROUP BY ALL;

CREATE TEMP TABLE _placed AS
SELECT *, row_number() OVER (PARTITION BY side, source, event, process_id, device_index ORDER BY self DESC, total DESC, function_id) AS self_place,
    row_number() OVER (PARTITION BY side, source, event, process_id, device_index ORDER BY total DESC, self DESC, function_id) AS total_place
FROM _summed;

-- Everything without a row: less used functions, and what has no call path.
CREATE TEMP TABLE hot_functions AS
WITH shown AS (
    SELECT * FROM _placed
    WHERE self_place <= getvariable('hotspot_rows') OR total_place <= getvariable('hotspot_rows') // 2
), sums AS (
    SELECT side, source, event, any_value(unit) AS unit, process_id, device_index, sum(amount) AS amount, sum(call_count) AS call_count
    FROM hot_weights GROUP BY side, source, event, process_id, device_index
    HAVING bool_or(call_path_id IS NOT NULL)
), kept AS (
    SELECT side, source, event, process_id, device_index, sum(self) AS self, sum(call_count) AS call_count FROM shown GROUP BY ALL
)
SELECT s.side || '_function' AS hotspot_kind, s.source, s.event, s.unit, s.process_id, s.device_index, f.name, f.file, f.module,
    false AS is_other, s.call_count, s.self, s.total
FROM shown AS s JOIN _functions AS f ON f.frame_id = s.function_id
UNION ALL
SELECT a.side || '_function', a.source, a.event, a.unit, a.process_id, a.device_index, NULL, NULL, NULL, true,
    a.call_count - coalesce(k.call_count, 0), a.amount - coalesce(k.self, 0), a.amount - coalesce(k.self, 0)
FROM sums AS a
LEFT JOIN kept AS k ON k.side = a.side AND k.source = a.source AND k.event IS NOT DISTINCT FROM a.event
    AND k.process_id IS NOT DISTINCT FROM a.process_id AND k.device_index IS NOT DISTINCT FROM a.device_index
WHERE a.amount > coalesce(k.self, 0);
