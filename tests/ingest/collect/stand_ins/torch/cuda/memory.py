import os

history = []


def _record_memory_history(enabled, stacks="all", max_entries=None):
    if os.environ.get("STAND_IN_OLD_TORCH"):
        raise TypeError("unexpected keyword argument 'stacks'")
    history.append({"enabled": enabled, "stacks": stacks, "max_entries": max_entries})


def _snapshot():
    return {"segments": [], "device_traces": [history], "allocator_settings": {}}
