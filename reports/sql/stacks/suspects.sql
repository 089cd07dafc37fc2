-- Survivors of growing suspects.
SELECT s.level, s.process_id, s.device_index, e.call_path_id, e.allocated_bytes AS weight
FROM leak_evidence e JOIN leak_suspects s USING (suspect_id)
WHERE s.verdict = 'growing'
