-- Latency over time: median and highest of the requests that began in each slice, and how many of them failed or were cut.
-- Where a log names requests, rows without an id are those once more.
WITH _spans AS (
    SELECT start_ns, latency_ns, status FROM request_spans
    WHERE start_ns IS NOT NULL AND latency_ns >= 0
        AND (NOT coalesce(is_request_id_inferred, false) OR NOT EXISTS (FROM request_spans WHERE NOT coalesce(is_request_id_inferred, false) AND status IS NOT NULL))
),
_window AS (SELECT min(start_ns) AS first_ns, greatest(1, max(start_ns) - min(start_ns)) AS length_ns FROM _spans)
SELECT any_value(w.first_ns) AS first_ns, any_value(w.length_ns) AS length_ns,
    least($slices - 1, ((s.start_ns - w.first_ns)::HUGEINT * $slices // (w.length_ns + 1))::BIGINT) AS slice,
    count(*) AS request_count, quantile_cont(s.latency_ns, 0.5) AS p50_ns, max(s.latency_ns) AS max_ns,
    count(*) FILTER (regexp_matches(coalesce(s.status, ''), '^(5..|499)$')) AS bad_count
FROM _spans AS s JOIN _window AS w ON true
GROUP BY slice ORDER BY slice
