-- Devices, the one that idled longest first, and what kept others from being judged.
SELECT *, count(*) OVER () AS total FROM device_activity ORDER BY idle_ns DESC NULLS LAST, activity_id LIMIT $limit
