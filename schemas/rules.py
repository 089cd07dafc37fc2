"""What rows of a table must keep to beyond what their columns say: between columns, in words of SQL.

What follows from the columns alone (ranges, keys, references, times, order) needs no line here.
"""

from __future__ import annotations

BROKEN: dict[str, dict[str, str]] = {
    "allocations": {
        "freed_before_given_back": "free_ts_ns < free_requested_ts_ns",
        "wrong_start": "is_alloc_before_window AND alloc_ts_ns IS NOT NULL",
    },
    "live_bytes": {"bytes_without_allocations": "live_count = 0 AND live_bytes > 0"},
    "leak_suspects": {
        "more_survivors_than_epochs": "surviving_epochs_count > epochs_count",
        "growing_without_bytes": "verdict = 'growing' AND retained_bytes = 0 AND retained_count = 0",
        "rank_without_growth": "(suspect_rank IS NOT NULL) <> (verdict = 'growing')",
    },
    "leak_evidence": {"more_asked_for_than_taken": "requested_bytes > allocated_bytes"},
    "fragmentation": {
        "state_not_conserved": "reserved_bytes::HUGEINT <> active_bytes::HUGEINT + inactive_bytes"
        " OR active_bytes::HUGEINT <> allocated_bytes::HUGEINT + pending_free_bytes",
        "part_above_whole": "inactive_split_bytes > inactive_bytes OR largest_free_bytes > inactive_bytes"
        " OR mean_free_bytes > largest_free_bytes"
        " OR private_reserved_bytes > reserved_bytes OR private_inactive_bytes > least(inactive_bytes, private_reserved_bytes)",
    },
    "sync_stalls": {"wrong_duration": "duration_ns <> end_ns - start_ns"},
    "stall_costs": {
        "part_above_whole": "union_ns > total_ns OR union_ns > window_ns OR hot_ns > hot_window_ns OR hot_count > stall_count",
    },
    "device_activity": {
        "time_not_conserved": "busy_ns + idle_ns <> end_ns - start_ns OR coalesce(sync_idle_ns + launch_idle_ns + host_idle_ns, 0)"
        " + unknown_idle_ns <> idle_ns OR least(busy_ns, sync_idle_ns, launch_idle_ns, host_idle_ns, unknown_idle_ns) < 0",
    },
    "idle_gaps": {
        "time_not_conserved": "idle_ns <> end_ns - start_ns OR coalesce(sync_idle_ns + launch_idle_ns + host_idle_ns, 0)"
        " + unknown_idle_ns <> idle_ns OR least(idle_ns, sync_idle_ns, launch_idle_ns, host_idle_ns, unknown_idle_ns) < 0",
    },
    "stream_pairs": {"part_above_whole": "matched_count > burst_count OR matched_count > other_burst_count"},
    "hotspots": {
        "part_above_whole": "self_amount > total_amount",
        "number_of_what_is_not_known": "abstained_reason IS NOT NULL AND (self_amount IS NOT NULL OR call_count IS NOT NULL)",
    },
    "request_latency": {"part_above_whole": "measured_count > request_count"},
    "slo": {
        "part_above_whole": "bad_count > request_count",
        "verdict_without_value": "(slo_verdict = 'abstained') <> (abstained_reason IS NOT NULL)",
    },
}
"""By table: name of the fault, and the SQL condition that a row at fault meets."""

MAY_LEAVE_CAPTURE: dict[str, tuple[str, ...]] = {"slo": ("start_ns", "end_ns")}
"""Times that may lie outside what was recorded: windows around a marked period are as long as the period."""

OF_ANOTHER_CAPTURE: frozenset[str] = frozenset({"comparison"})
"""Tables whose numbers of rows are those of other captures: their references are not followed."""
