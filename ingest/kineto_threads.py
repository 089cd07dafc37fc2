"""Threads of a trace as small numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ingest.callpaths import stable_id
from ingest.kineto_columns import whole_number
from ingest.kineto_spans import Int32s
from ingest.numbers import INT64_MAX
from ingest.sink import Sink

MAX_THREADS = 10_000


class Threads(dict[tuple[Any, Any], int]):
    """(pid, tid) as the file writes them → number of the thread; 0 is no thread in particular.

    A pid below `lowest_pid` is none: Kineto writes 0 for Python threads it has not met.
    """

    def __init__(self, sink: Sink, lowest_pid: int) -> None:
        super().__init__()
        self._sink, self._lowest_pid = sink, lowest_pid
        self._numbers: dict[tuple[int | None, int | None], int] = {(None, None): 0}

    def numbers(self, pids: list[Any], tids: list[Any]) -> Int32s:
        """Number of the thread of each event."""
        try:
            if pids.count(pids[0]) == len(pids) and tids.count(tids[0]) == len(tids):
                return np.full(len(pids), self[pids[0], tids[0]], np.int32)
            numbers = [self[pair] for pair in zip(pids, tids, strict=True)]
        except TypeError:  # a list or an object for a name
            numbers = [self[repr(pid), repr(tid)] for pid, tid in zip(pids, tids, strict=True)]
        return np.array(numbers, np.int32)

    def __missing__(self, pair: tuple[Any, Any]) -> int:
        process, thread = (whole_number(value) for value in pair)
        process = process if process is not None and self._lowest_pid <= process <= INT64_MAX else None
        if thread is None and isinstance(pair[1], str) and pair[1]:
            self._sink.count("threads_named_by_text", detail=pair[1][:80])
            thread = stable_id(pair[1])
        thread = thread if thread is not None and abs(thread) <= INT64_MAX else None
        number = self._numbers.setdefault((process, thread), len(self._numbers))
        if number >= MAX_THREADS:
            self._numbers.pop((process, thread))
            self._sink.count("threads_beyond_limit", severity="data_loss", detail=f"more than {MAX_THREADS} threads")
            return 0
        self[pair] = number
        return number

    def columns(self, threads: Int32s) -> dict[str, pa.Array]:
        """`process_id` and `thread_id` of numbers of threads."""
        pairs = list(self._numbers)
        taken = pa.array(threads)
        return {
            name: pa.array([pair[place] for pair in pairs], pa.int64()).take(taken)
            for place, name in enumerate(("process_id", "thread_id"))
        }

    def processes(self, used: set[int]) -> set[int]:
        """Processes of the threads numbered `used`."""
        return {pid for (pid, _), number in self._numbers.items() if number in used and pid is not None}
