"""Every scenario by name."""

from __future__ import annotations

from tests.generate import clean, leaking, others
from tests.generate.scene import Scenario

CLEAN: dict[str, Scenario] = {
    function.__name__: function
    for function in (
        clean.steady,
        clean.bounded_lru,
        clean.random_eviction,
        clean.ttl,
        clean.warm_up,
        clean.sawtooth,
        clean.filling_pool,
        clean.truncated_lru,
        clean.nearly_all_lost_lru,
        others.interleaved_clean,
        others.training_clean,
        others.idle_windows_clean,
        others.time_windows_clean,
    )
}
LEAKING: dict[str, Scenario] = {
    function.__name__: function
    for function in (
        leaking.growing,
        leaking.cancelled_only,
        leaking.varying_sizes,
        leaking.rare_big,
        leaking.slow_drip,
        leaking.cache_and_leak,
        leaking.cancelled_in_cache,
        leaking.two_leaks,
        leaking.workspace_on_path,
        leaking.late_start,
        leaking.dump_in_request,
        others.interleaved_leak,
        others.training_leak,
        others.one_rank_leaks,
        others.one_device_leaks,
        others.graph_kept,
        others.idle_windows_leak,
        others.time_windows_leak,
    )
}
TRUNCATED: dict[str, Scenario] = {
    function.__name__: function for function in (leaking.truncated_leak, leaking.nearly_all_lost_leak)
}
