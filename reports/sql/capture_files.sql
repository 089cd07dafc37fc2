-- Capture files with how they were read and aligned, those with trouble first.
SELECT f.*, a.method, a.anchor_count, a.offset_ns, a.residual_p99_ns, a.check_difference_ns, a.clock_aligned,
       coalesce(a.is_disagreement, false) AS is_disagreement, count(*) OVER () AS total
FROM capture_files f LEFT JOIN clock_alignments a USING (file_id)
ORDER BY f.read_state = 'read', a.clock_aligned NULLS LAST, f.file_id LIMIT $limit
