-- What the device worked on, by the first rule of kernels.yaml that holds for the operation's name or a frame of its call
-- path, and the width of the numbers by the kernel's name. What no rule names is `other`, so that shares sum to 1.
CREATE TEMP TABLE _path_rules AS
SELECT p.call_path_id, min(f.rule) AS rule
FROM (
    SELECT call_path_id, unnest(min(frame_ids)) AS frame_id FROM call_paths
    WHERE call_path_id IN (SELECT call_path_id FROM hot_ops) GROUP BY call_path_id
) AS p
JOIN frame_rules AS f USING (frame_id)
GROUP BY p.call_path_id;

CREATE TEMP TABLE _ruled AS
SELECT o.process_id, o.device_index, coalesce(s.share, 'other') AS share, coalesce(n.number_type, 'other') AS number_type,
    o.call_path_id IS NOT NULL AS has_path, o.call_count, o.amount
FROM hot_ops AS o
LEFT JOIN kernel_rules AS n ON n.op = o.op AND n.name IS NOT DISTINCT FROM o.name
LEFT JOIN _path_rules AS p ON p.call_path_id = o.call_path_id
LEFT JOIN share_rules AS s ON s.rule = least(n.rule, p.rule);

CREATE TEMP TABLE hot_shares AS
SELECT 'gpu_share' AS hotspot_kind, process_id, device_index, share AS name, share = 'other' AS is_other,
    sum(call_count)::HUGEINT AS call_count, sum(amount)::HUGEINT AS self,
    bool_or(bool_or(has_path)) OVER (PARTITION BY process_id, device_index) AS has_paths
FROM _ruled GROUP BY process_id, device_index, share
UNION ALL
SELECT 'gpu_type', process_id, device_index, number_type, number_type = 'other', sum(call_count)::HUGEINT, sum(amount)::HUGEINT, true
FROM _ruled WHERE share NOT IN ('transfer', 'cast') GROUP BY process_id, device_index, number_type;
