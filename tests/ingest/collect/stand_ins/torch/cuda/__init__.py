from .. import _C
from . import memory

_queued = []
_ready = False


def _lazy_call(function, **options):
    if _ready:
        function()
    else:
        _queued.append(function)


def init():
    global _ready
    _ready = True
    for function in _queued:
        function()


def run_out_of_memory():
    """What the real allocator does before it raises: device, requested, total, free bytes."""
    for observer in _C.observers:
        observer(0, 1 << 30, 1 << 34, 4096)


__all__ = ["memory"]
