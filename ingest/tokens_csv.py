"""Per-token memory samples as CSV: `timestamp_ns,request_id,token_index,rss_bytes,cuda_allocated_bytes`.

One row a generated token, written by the serving process: the resident set size (psutil or
/proc/self/statm, https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html) and the bytes the caching
allocator had handed out (https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory_allocated.html).
"""

from __future__ import annotations

from pathlib import Path

from ingest.csvrows import CsvRows, has_header
from ingest.numbers import NumberReader
from ingest.registry import Importer
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import open_lines

_REQUIRED = ("timestamp_ns", "request_id", "token_index")
_ROW = ("ts_ns", "request_id", "token_index", "rss_bytes", "device_allocated_bytes")


def sniff(head: bytes, path: Path) -> bool:
    """A header with a time, a request and a token index."""
    return has_header(head, _REQUIRED)


def read(path: Path, sink: Sink) -> None:
    """Read `tokens`; a row without a usable time is counted and left out, other damaged values become null."""
    numbers = NumberReader(sink)
    batch = RowBatch(sink, "tokens", _ROW)
    with open_lines(path, sink) as lines:
        rows = CsvRows(lines, sink, path, _REQUIRED)
        ts, request, token = (rows.columns.index(name) for name in _REQUIRED)
        rss = rows.position("rss_bytes")
        allocated_name = "cuda_allocated_bytes" if "cuda_allocated_bytes" in rows.columns else "device_allocated_bytes"
        allocated = rows.position(allocated_name)
        known = {ts, request, token, rss, allocated}
        if unread := [name for place, name in enumerate(rows.columns) if place not in known]:
            sink.count("unread_columns", len(unread), detail=", ".join(unread)[:200])
        for line, fields in rows:
            ts_ns = numbers.time_ns(fields[ts], "timestamp_ns", line)
            if ts_ns is None:
                continue
            batch.add(
                ts_ns,
                fields[request].strip() or None,
                numbers.integer(fields[token], "token_index", line),
                None if rss is None else numbers.integer(fields[rss], "rss_bytes", line),
                None if allocated is None else numbers.integer(fields[allocated], allocated_name, line),
            )
    batch.flush()
    numbers.settle_clock()


IMPORTER = Importer(
    name="tokens_csv",
    priority=60,
    title="Memory at each generated token (CSV)",
    source="tokens",
    clock="realtime",
    versions="columns timestamp_ns, request_id, token_index; optional rss_bytes, cuda_allocated_bytes; any order",
    produced_by="the serving process, one row a token",
    recipe="in the server, after each token: print(time.time_ns(), request_id, i, rss, allocated_bytes, sep=',')",
    left_out="columns with other names, counted",
    reference="https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory_allocated.html",
    tables=("tokens",),
    sniff=sniff,
    read=read,
)
