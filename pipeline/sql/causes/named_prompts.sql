-- Requests whose log names their prompt by a hash or an id (of a prefix: `is_prefix`), and whether another has the same.
CREATE TEMP TABLE _named_requests AS
SELECT request_id, process_id, end_ns, is_prefix, prompt,
    CASE WHEN prompt_tokens > 0 THEN prompt_tokens / (prompt_tokens + coalesce(output_tokens, 0)) ELSE 1.0 END AS prompt_share
FROM (
    SELECT *, coalesce(exact, prefix) AS prompt, exact IS NULL AS is_prefix
    FROM (
        SELECT *,
            coalesce(attributes ->> 'prompt_hash', attributes ->> 'prompt_sha256', attributes ->> 'prompt_digest', attributes ->> 'prompt_md5',
                attributes ->> 'prompt_fingerprint', attributes ->> 'prompt_id', attributes ->> 'input_hash') AS exact,
            coalesce(attributes ->> 'prefix_hash', attributes ->> 'prefix_id', attributes ->> 'system_prompt_hash') AS prefix
        FROM request_spans
    )
)
WHERE prompt IS NOT NULL;

CREATE TEMP TABLE named_prompts AS
SELECT *, min(request_id) OVER (PARTITION BY process_id, prompt) <> max(request_id) OVER (PARTITION BY process_id, prompt) AS is_again
FROM _named_requests;
