"""Captures whose files are moved in time, one at a time, by rewriting the timestamps that the producer wrote."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ingest.torch_reading import CAPTURES, plain

HOUR_NS = 3_600_000_000_000
_KEPT = {"_HEADER", "MEMORY2", "MEMORY_POOL", "CONTEXT", "DEVICE", "MARKER", "MARKER_DATA"}


def copy_small(name: str, folder: Path) -> None:
    """The files of a capture that hold times; of the CUPTI dump the records of memory and the calls behind them."""
    source = CAPTURES / name
    folder.mkdir(parents=True)
    for path in source.iterdir():
        if path.name in ("truth.json", "metrics.prom"):
            continue
        if path.name.startswith("cupti"):
            data = path.read_bytes()
            lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
            records = [json.loads(line) for line in lines]
            made = {r["correlation_id"] for r in records if r["kind"] == "MEMORY2"}
            kept = [
                line
                for line, r in zip(lines, records, strict=True)
                if r["kind"] in _KEPT
                or (r["kind"] in ("RUNTIME", "DRIVER", "EXTERNAL_CORRELATION") and r.get("correlation_id") in made)
            ]
            (folder / "cupti.jsonl").write_text("\n".join(kept) + "\n")
        elif path.name.endswith(".gz"):
            (folder / path.name[:-3]).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            (folder / path.name).write_bytes(path.read_bytes())


def _move_snapshot(path: Path, by_ns: int) -> None:
    snapshot = plain(path)
    for trace in [*snapshot["device_traces"], snapshot["external_annotations"]]:
        for event in trace:
            event["time_us"] += by_ns // 1000
    path.write_bytes(pickle.dumps(snapshot, 4))


def _move_json(path: Path, by_ns: int, moved: Callable[[str], bool]) -> None:
    def shift(record: dict[str, Any]) -> dict[str, Any]:
        return {
            key: value + by_ns if moved(key) and isinstance(value, int) and value > 10**12 else value
            for key, value in record.items()
        }

    lines = [json.dumps(shift(json.loads(line))) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")


def _move_bpftrace(path: Path, by_ns: int) -> None:
    moved = re.sub(r"(?m)^(\d{9,})(?= )", lambda m: str(int(m[1]) + by_ns), path.read_text())
    path.write_text(moved)


def _move_tokens(path: Path, by_ns: int) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    columns = [i for i, name in enumerate(rows[0]) if name.endswith("_ns")]
    for row in rows[1:]:
        for column in columns:
            row[column] = str(int(row[column]) + by_ns)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(text.getvalue())


def move(folder: Path, file: str, by_ns: int) -> None:
    """Add `by_ns` to every timestamp of one file of a copied capture; headers with clock pairs stay as they are."""
    path = folder / file
    before = path.read_bytes()
    if file == "snapshot.pickle":
        _move_snapshot(path, by_ns)
    elif file == "cupti.jsonl":
        _move_json(path, by_ns, lambda key: key in ("timestamp", "start", "end"))
    elif file == "requests.jsonl":
        _move_json(path, by_ns, lambda key: key.endswith("_ns"))
    elif file == "bpftrace.txt":
        _move_bpftrace(path, by_ns)
    else:
        _move_tokens(path, by_ns)
    assert path.read_bytes() != before
