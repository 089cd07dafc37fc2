"""Record one process's CUDA activity into a `leakpath-cupti` file (FORMAT.md).

CUPTI hands over full buffers on a thread of its own. There they are cut into arrays and their texts resolved, the only
work that must happen while CUPTI holds them; a writer thread packs, compresses and writes.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .arrow_columns import arrow_columns
from .clock_pairs import read_clock_pair
from .cupti_library import API_KINDS, KINDS, CuptiLibrary
from .records import Block, Texts
from .segments import FOOTER, HEADER, write_note, write_segment

MAX_WAITING_BLOCKS = 256
MAX_SEGMENT_ROWS = 1 << 18
_STOP = None


class CuptiRecorder:
    """Records from `start` to `stop`.

    `api`: record API calls at all; `all_calls`: the chatty ones too; `flush_period_s`: how old, in seconds, the last
    written record may be; `delivery`: `buffers` or `objects`. Raises CuptiUnavailable.
    """

    file: BinaryIO

    def __init__(self, *, api: bool, all_calls: bool, flush_period_s: float, delivery: str) -> None:
        self.flush_period_s = flush_period_s
        self.kinds = (*KINDS, *API_KINDS) if api else KINDS
        self.all_calls, self.wish = all_calls, delivery
        self.native = CuptiLibrary()
        self.muted: dict[str, dict[int, str]] = {}
        self.rows: Counter[str] = Counter()
        self.muted_rows = 0
        self.error: str | None = None
        self._names: dict[tuple[str, int], str | None] = {}
        self._queue: queue.Queue[Block | None] = queue.Queue(MAX_WAITING_BLOCKS)
        self._stopping = threading.Event()
        self._writer = threading.Thread(target=self._write_all, name="leakpath-cupti", daemon=True)
        # Not the writer's own work: a flush may wait for room in the queue that the writer empties.
        self._flusher = threading.Thread(target=self._flush_all, name="leakpath-cupti-flush", daemon=True)

    def start(self, file: BinaryIO) -> None:
        """Begin to record into `file`, which is open, empty and ours."""
        self.file = file
        library = self.native
        thread_ids = library.use_system_thread_ids()
        self.delivery = library.delivery(self.wish, self._take)
        library.follow_nvtx()
        refused = {kind: reason for kind in self.kinds if (reason := library.enable(kind))}
        if not self.all_calls:
            for kind in API_KINDS:
                if kind in self.kinds:
                    self.muted[kind] = library.quiet_calls(kind)
                    for callback_id in self.muted[kind]:
                        library.mute(kind, callback_id)
        header = {
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "clock": read_clock_pair(),
            "cupti_timestamp": library.timestamp(),
            "clock_name": "realtime",
            "thread_id_type": thread_ids,
            "delivery": self.delivery.name,
            "kinds": [kind for kind in self.kinds if kind not in refused],
            "kinds_refused": refused,
            "muted_calls": sorted(name for names in self.muted.values() for name in names.values()),
            **library.describe(),
        }
        write_note(self.file, HEADER, header)
        self._writer.start()
        self._flusher.start()

    def stop(self, reason: str) -> None:
        """Flush what CUPTI holds, write it and the footer, close the file."""
        self._stopping.set()
        self._flusher.join()
        self.native.flush(force=True)
        for kind in self.kinds:
            self.native.disable(kind)
        self.native.flush(force=True)
        self._queue.put(_STOP)
        self._writer.join()
        footer = {
            "clock": read_clock_pair(),
            "cupti_timestamp": self.native.timestamp(),
            "dropped_records": self.delivery.dropped,
            "skipped_records": dict(self.delivery.skipped),
            "muted_records": self.muted_rows,
            "records": dict(self.rows),
            "end_reason": f"error: {self.error}" if self.error else reason,
        }
        with self.file:
            write_note(self.file, FOOTER, footer)

    def abandon(self) -> None:
        """In a forked child: the file belongs to the parent, CUPTI does not work here."""
        self.file.close()

    def _take(self, block: Block) -> None:
        if block.kind in API_KINDS:
            block = self._with_names(block)
        if len(block.rows) and not self.error:
            self._queue.put(block)  # waits when the writer is far behind, so memory stays bounded

    def _with_names(self, block: Block) -> Block:
        muted = self.muted.get(block.kind)
        rows = block.rows
        if muted:
            keep = ~np.isin(rows["cbid"], np.fromiter(muted, np.uint32, len(muted)))
            self.muted_rows += len(rows) - int(keep.sum())
            rows = rows[keep]
        ids, codes = np.unique(rows["cbid"], return_inverse=True)
        names = [self._call_name(block.kind, callback_id) for callback_id in ids.tolist()]
        known = [name for name in names if name is not None]
        code_of = np.array([known.index(name) if name is not None else -1 for name in names], np.int32)
        texts = Texts(code_of[codes] if len(rows) else np.empty(0, np.int32), known)
        return Block(block.kind, rows, block.columns, {**block.texts, "name": texts})

    def _call_name(self, kind: str, callback_id: int) -> str | None:
        key = (kind, callback_id)
        if key not in self._names:
            self._names[key] = self.native.call_name(kind, callback_id)
        return self._names[key]

    def _flush_all(self) -> None:
        while not self._stopping.wait(self.flush_period_s):
            self.native.flush(force=False)

    def _write_all(self) -> None:
        waiting: dict[str, list[Block]] = {}
        due = time.monotonic() + self.flush_period_s
        running = True
        while running:
            try:
                block = self._queue.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                block = None
            else:
                running = block is not _STOP
            if block is not None:
                waiting.setdefault(block.kind, []).append(block)
            rows = sum(len(one.rows) for blocks in waiting.values() for one in blocks)
            if not running or rows >= MAX_SEGMENT_ROWS or time.monotonic() >= due:
                self._write(waiting)
                waiting = {}
                due = time.monotonic() + self.flush_period_s

    def _write(self, waiting: dict[str, list[Block]]) -> None:
        for kind, blocks in waiting.items():
            try:
                for columns, rows in arrow_columns(blocks):
                    write_segment(self.file, kind, columns)
                    self.rows[kind] += rows
            except OSError as error:  # a full disk: stop writing, let the program go on
                self.error = self.error or f"{type(error).__name__}: {error}"
                return
            except Exception as error:
                self.delivery.skipped[f"{kind}: {type(error).__name__}: {error}"] += sum(len(b.rows) for b in blocks)


def claim_file(path: Path) -> BinaryIO:
    """Create the capture file of this process, beside `path` with its pid where another process has taken the name."""
    for candidate in (path, path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")):
        try:
            return candidate.open("xb", buffering=0)
        except FileExistsError:
            continue
    raise FileExistsError(f"{path} exists")
