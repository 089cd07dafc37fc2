-- What repeats, numbered a process. Epochs cut time at their starts, so that what is allocated between two belongs to the
-- earlier one; the last epoch keeps its own end, null while it was still running.
CREATE TEMP TABLE epochs_made AS
SELECT
    process_id,
    row_number() OVER starts - 1 AS epoch_index,
    epoch_kind, epoch_name, start_ns,
    coalesce(lead(start_ns) OVER starts, end_ns) AS end_ns,
    request_id
FROM (SELECT * FROM named_epochs UNION ALL SELECT * FROM unnamed_epochs)
WINDOW starts AS (PARTITION BY process_id ORDER BY start_ns);
