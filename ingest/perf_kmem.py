"""Kernel memory events among perf's samples, to `memory_events` of level host.

The kernel owns the memory, so that process_id is 0 and thread_id is who ran: slab objects and pages are freed by
whoever comes by.
"""

from __future__ import annotations

from ingest.callpaths import Frame
from ingest.kernel_objects import MODULE, cache_of
from ingest.kmem_fields import kmem_event
from ingest.perf_frames import PerfStacks
from ingest.rowbatch import RowBatch
from ingest.sink import Sink

_ROW = (
    "action", "ts_ns", "process_id", "thread_id", "address", "size_bytes", "requested_bytes", "memory_kind",
    "cpu_index", "name", "user_metadata", "call_path_id",
)  # fmt: skip
_PREFIX = "kmem:"


class KmemRows:
    """Writes one row a kmem tracepoint."""

    def __init__(self, sink: Sink, stacks: PerfStacks) -> None:
        self._sink, self._stacks = sink, stacks
        self._batch = RowBatch(sink, "memory_events", _ROW, level="host")

    def add(
        self,
        event: str,
        fields: str,
        ts_ns: int | None,
        process_id: int | None,
        thread_id: int | None,
        cpu_index: int | None,
        path: int | None,
        line: int,
    ) -> int | None:
        """Take one tracepoint sample; the call path of the sample, which is the call site when it has no stack.

        That of the event goes on to the kernel object.

        Fields of other tracepoints are counted as left out.
        """
        found = kmem_event(event, fields) if event.startswith(_PREFIX) else None
        if found is None:
            self._sink.count("tracepoint_fields_left_out", detail=f"{event[:80]}, first at line {line}")
            return path
        if path is None:
            path = self._stacks.call_site(found.call_site, found.call_site_module, found.call_site_address)
        if found.damage:
            detail = f"{found.call}: {found.damage}, first at line {line}"
            self._sink.count("damaged_values", severity="data_loss", detail=detail)
        elif found.call == "kfree" and found.address == 0:
            self._sink.count("frees_of_null", detail=f"first at line {line}")
        owner = 0 if found.call != "rss_stat" else process_id if found.is_current else None
        cache = cache_of(found)
        self._batch.add(
            found.action, ts_ns, owner, thread_id, found.address, found.size_bytes, found.requested_bytes,
            found.memory_kind, cpu_index, found.name[:256], found.attributes and found.attributes[:1024],
            path if cache is None else self._stacks.below(path, Frame(cache, module=MODULE)),
        )  # fmt: skip
        return path

    def flush(self) -> None:
        """Write what is there."""
        self._batch.flush()
