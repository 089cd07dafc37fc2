-- Bytes of key/value caches that several requests with one prompt hold at once, at the moment with most and at the end, a
-- process and device. Of each prompt the largest cache is the one that would do; of a cache the prompt's share of the tokens
-- counts. `cache_paths` are the call paths below a cache's frames. Where only a prefix is equal the bytes are an upper bound.
CREATE TEMP TABLE _cache_lives AS
SELECT a.process_id, a.device_index, a.allocated_bytes, a.request_id, p.prompt, p.is_prefix, p.prompt_share, p.end_ns, a.alloc_ts_ns, a.free_ts_ns
FROM allocations AS a
JOIN (SELECT * FROM named_prompts WHERE is_again) AS p
    ON p.request_id = a.request_id AND (p.process_id = a.process_id OR p.process_id IS NULL)
SEMI JOIN cache_paths AS c ON c.call_path_id = a.alloc_call_path_id
WHERE a.level = 'tensor' AND a.alloc_ts_ns IS NOT NULL AND a.allocated_bytes > 0;

-- As in the allocator's states: the first moment after the allocation tells whether any moment sees it.
CREATE TEMP TABLE _seen_caches AS
SELECT moment_id, m.ts_ns, s.process_id, s.device_index, s.prompt, s.request_id, s.is_prefix, coalesce(s.end_ns <= m.ts_ns, false) AS is_ended,
    s.allocated_bytes * s.prompt_share AS held_bytes
FROM (
    SELECT s.*, unnest(range(s.first_id, coalesce(u.moment_id, l.last_id + 1))) AS moment_id
    FROM (
        SELECT a.*, f.moment_id AS first_id
        FROM _cache_lives AS a
        ASOF JOIN allocator_moments AS f
            ON f.process_id = a.process_id AND f.device_index = a.device_index AND f.ts_ns >= a.alloc_ts_ns
        WHERE coalesce(a.free_ts_ns > f.ts_ns, true)
    ) AS s
    JOIN (SELECT process_id, device_index, max(moment_id) AS last_id FROM allocator_moments GROUP BY process_id, device_index) AS l
        ON l.process_id = s.process_id AND l.device_index = s.device_index
    ASOF LEFT JOIN allocator_moments AS u
        ON u.process_id = s.process_id AND u.device_index = s.device_index AND u.ts_ns >= s.free_ts_ns
) AS s
JOIN allocator_moments AS m USING (moment_id);

CREATE TEMP TABLE _prompt_moments AS
SELECT process_id, device_index, moment_id, any_value(ts_ns) AS ts_ns, bool_or(is_prefix) AS is_prefix,
    sum(held_bytes - largest_bytes) AS copied_bytes, coalesce(sum(held_bytes) FILTER (request_count > 1), 0) AS held_bytes,
    sum(request_count) FILTER (request_count > 1) AS request_count, sum(ended_count) FILTER (request_count > 1) AS ended_count,
    count(*) FILTER (request_count > 1) AS prompt_count
FROM (
    SELECT process_id, device_index, moment_id, prompt, any_value(ts_ns) AS ts_ns, bool_or(is_prefix) AS is_prefix, sum(held_bytes) AS held_bytes,
        max(held_bytes) AS largest_bytes, count(*) AS request_count, count(*) FILTER (is_ended) AS ended_count
    FROM (
        SELECT process_id, device_index, moment_id, prompt, request_id, any_value(ts_ns) AS ts_ns, bool_or(is_prefix) AS is_prefix,
            bool_and(is_ended) AS is_ended, sum(held_bytes) AS held_bytes
        FROM _seen_caches GROUP BY process_id, device_index, moment_id, prompt, request_id
    )
    GROUP BY process_id, device_index, moment_id, prompt
)
GROUP BY process_id, device_index, moment_id;

CREATE TEMP TABLE prompt_copies AS
SELECT process_id, device_index, ts_ns, copied_bytes::BIGINT AS copied_bytes, held_bytes::BIGINT AS held_bytes,
    coalesce(prompt_count, 0) AS prompt_count, coalesce(request_count, 0)::BIGINT AS request_count,
    coalesce(ended_count, 0)::BIGINT AS ended_count, is_prefix
FROM _prompt_moments
QUALIFY row_number() OVER (PARTITION BY process_id, device_index ORDER BY copied_bytes DESC, ts_ns) = 1;
