"""Reads a file that ends in one endless line; run as a program, so that its memory can be measured.

`python -m tests.ingest.long_line_sweep GIB FILE...` appends a line of that many GiB to a copy of each file (unpacked),
reads it, and prints a JSON line each: what came of it, seconds, and the most memory that was resident, in MiB.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ingest.capture import read_capture
from ingest.errors import BadInput
from tests.ingest.damage_sweep import unpacked
from tests.ingest.peak_memory import peak_bytes, reset_peak

_PIECE = b"x" * (1 << 20)


def main(gib: str, *files: str) -> None:
    """Read each file with its endless line and print what came of it."""
    with tempfile.TemporaryDirectory() as scratch:
        target, parts = Path(scratch) / "x.bin", Path(scratch) / "parts"
        for name in files:
            with target.open("wb") as file:
                file.write(unpacked(Path(name)).rstrip(b"\n") + b"\n")
                for _ in range(int(float(gib) * 1024)):
                    file.write(_PIECE)
            reset_peak()
            began = time.monotonic()
            try:
                [result], _ = read_capture([target], target, parts)
                outcome = f"{result.format} {result.read_state} {result.row_count} rows {result.message or ''}"
            except BadInput as error:
                outcome = f"refused: {error}"
            seconds = round(time.monotonic() - began, 1)
            row = {"file": name, "outcome": outcome, "seconds": seconds, "peak_mib": peak_bytes() >> 20}
            print(json.dumps(row), flush=True)
            target.unlink()
            shutil.rmtree(parts, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
