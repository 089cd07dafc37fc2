-- Hosts and cgroups, those under pressure first.
SELECT *, count(*) OVER () AS total FROM pressure_effects
ORDER BY pressed_window_count > 0 DESC, pressure_p_value NULLS LAST, max_event_count DESC NULLS LAST, host, cgroup LIMIT $limit
