-- What was lost or left out, the worst first.
SELECT d.*, f.path, count(*) OVER () AS total
FROM diagnostics d LEFT JOIN capture_files f USING (file_id)
ORDER BY CASE d.severity WHEN 'error' THEN 0 WHEN 'data_loss' THEN 1 ELSE 2 END,
         d.occurrence_count DESC, d.stage, d.file_id NULLS LAST, d.name LIMIT $limit
