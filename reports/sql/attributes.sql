-- How many requests with survivors of a suspect, and without, have each value of each attribute.
-- Lengths are counted by powers of two. The attribute whose values differ most comes first, at most $values values of each.
WITH _epochs AS (
    SELECT epoch_index, min(request_id) AS request_id FROM epochs
    WHERE process_id IS NOT DISTINCT FROM $process_id GROUP BY epoch_index
),
_leaking AS (
    SELECT DISTINCT coalesce(e.request_id, p.request_id) AS request_id
    FROM leak_evidence e LEFT JOIN _epochs p USING (epoch_index) WHERE e.suspect_id = $suspect_id
),
_spans AS (
    SELECT DISTINCT ON (r.request_id) r.*, l.request_id IS NOT NULL AS is_leaking
    FROM request_spans r LEFT JOIN _leaking l USING (request_id)
    WHERE $process_id::BIGINT IS NULL OR r.process_id IS NULL OR r.process_id = $process_id
    ORDER BY r.request_id, r.start_ns
),
_totals AS (
    SELECT count(*) FILTER (WHERE is_leaking) AS leaking_total, count(*) FILTER (WHERE NOT is_leaking) AS others_total
    FROM _spans
),
_lengths AS (
    SELECT is_leaking, unnest([{'name': 'prompt_tokens', 'tokens': prompt_tokens},
                               {'name': 'output_tokens', 'tokens': output_tokens}]) AS length
    FROM _spans
),
_keys AS (
    SELECT is_leaking, attributes, unnest(json_keys(attributes)[:32]) AS key
    FROM _spans WHERE json_valid(attributes) AND json_type(attributes) = 'OBJECT'
),
_named AS (
    SELECT is_leaking, 'status' AS attribute, status AS value FROM _spans
    UNION ALL SELECT is_leaking, 'model', model FROM _spans
    UNION ALL SELECT is_leaking, 'request_kind', request_kind FROM _spans
    UNION ALL SELECT is_leaking, 'rank', rank::VARCHAR FROM _spans
    UNION ALL
    SELECT is_leaking, length.name, CASE WHEN length.tokens < 1 THEN '0'
        ELSE (1::BIGINT << floor(log2(length.tokens))::INT) || '–' || ((2::BIGINT << floor(log2(length.tokens))::INT) - 1) END
    FROM _lengths WHERE length.tokens < 1::BIGINT << 60
    UNION ALL
    SELECT is_leaking, key, json_extract_string(attributes, '$."' || key || '"') FROM _keys WHERE NOT contains(key, '"')
),
_counted AS (
    SELECT left(attribute, 200) AS attribute, left(value, 200) AS value,
           count(*) FILTER (WHERE is_leaking) AS leaking, count(*) FILTER (WHERE NOT is_leaking) AS others
    FROM _named WHERE value IS NOT NULL GROUP BY ALL
),
_scored AS (
    SELECT *, abs(leaking / leaking_total - others / greatest(others_total, 1)) AS gap,
           sum(leaking) OVER whole AS all_leaking, sum(others) OVER whole AS all_others
    FROM _counted, _totals WHERE leaking_total > 0
    WINDOW whole AS (PARTITION BY attribute)
),
_placed AS (
    SELECT *, row_number() OVER (PARTITION BY attribute ORDER BY gap DESC, leaking DESC, value) AS place,
           max(gap) OVER (PARTITION BY attribute) AS best
    FROM _scored
)
SELECT attribute, value, leaking, others, all_leaking::BIGINT AS all_leaking, all_others::BIGINT AS all_others,
       leaking_total, others_total, dense_rank() OVER (ORDER BY best DESC, attribute) AS position
FROM _placed WHERE place <= $values ORDER BY position, place
