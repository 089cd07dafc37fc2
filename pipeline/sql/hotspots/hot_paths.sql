-- Self and total by call path: self is what a path weighs itself, total adds all paths that go on from it. The heaviest paths
-- of a place have a row each, the rest is one.
CREATE TEMP TABLE _heaviest AS
SELECT *, row_number() OVER (
    PARTITION BY side, source, event, process_id, device_index ORDER BY amount DESC, call_path_id NULLS LAST) AS place
FROM hot_weights;

CREATE TEMP TABLE _lists AS
SELECT call_path_id, min(frame_ids) AS frame_ids FROM call_paths
WHERE call_path_id IN (SELECT call_path_id FROM hot_weights) GROUP BY call_path_id;

CREATE TEMP TABLE _tops AS
SELECT call_path_id, frame_ids, len(frame_ids) AS depth, frame_ids[-1] AS leaf FROM _lists
WHERE call_path_id IN (SELECT call_path_id FROM _heaviest WHERE place <= getvariable('hotspot_rows')) AND len(frame_ids) > 0;

-- A path goes on from another one that ends with the frame it has at that depth, when all frames before agree.
CREATE TEMP TABLE _beneath AS
SELECT t.call_path_id AS top_id, e.call_path_id
FROM (SELECT call_path_id, unnest(frame_ids) AS frame_id, generate_subscripts(frame_ids, 1) AS depth FROM _lists) AS e
JOIN _tops AS t ON t.leaf = e.frame_id AND t.depth = e.depth
JOIN _lists AS l ON l.call_path_id = e.call_path_id
WHERE l.frame_ids[:t.depth] = t.frame_ids;

CREATE TEMP TABLE _totals AS
SELECT b.top_id, w.side, w.source, w.event, w.process_id, w.device_index, sum(w.amount)::HUGEINT AS total
FROM _beneath AS b JOIN hot_weights AS w ON w.call_path_id = b.call_path_id
GROUP BY ALL;

CREATE TEMP TABLE hot_paths AS
SELECT h.side || '_path' AS hotspot_kind, h.source, h.event, h.unit, h.process_id, h.device_index, h.call_path_id,
    false AS is_other, h.call_count, h.amount AS self, coalesce(t.total, h.amount) AS total
FROM _heaviest AS h
LEFT JOIN _totals AS t ON t.top_id = h.call_path_id AND t.side = h.side AND t.source = h.source
    AND t.event IS NOT DISTINCT FROM h.event AND t.process_id IS NOT DISTINCT FROM h.process_id
    AND t.device_index IS NOT DISTINCT FROM h.device_index
WHERE h.place <= getvariable('hotspot_rows')
UNION ALL
SELECT side || '_path', source, event, any_value(unit), process_id, device_index, NULL, true, sum(call_count), sum(amount), sum(amount)
FROM _heaviest WHERE place > getvariable('hotspot_rows')
GROUP BY side, source, event, process_id, device_index;
