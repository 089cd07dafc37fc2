"""Reads damaged variants of capture files; run as a program, so that its memory can be limited and measured.

`python -m tests.ingest.damage_sweep SEED VARIANTS FILE...` prints one JSON line: what came of the reads, every
traceback or hang, and the peak memory in MiB. A variant is the file's unpacked bytes, cut short or with bytes flipped.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

from ingest.capture import read_capture
from ingest.errors import BadInput
from ingest.opening import DAMAGED_STREAM, open_bytes
from tests.ingest.peak_memory import peak_bytes

READ_SECONDS = 60
MAX_BYTES = 8 * 1024 * 1024
CUTS = 10


def _late(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"longer than {READ_SECONDS} s")


def unpacked(path: Path) -> bytes:
    """The file's unpacked bytes, the first MAX_BYTES of them, as far as its packing is whole."""
    try:
        with open_bytes(path) as stream:
            return stream.read(MAX_BYTES)
    except DAMAGED_STREAM:
        return path.read_bytes()


def variant(data: bytes, number: int, chance: random.Random) -> bytes:
    """Variant `number`: even ones are cut at one of ten places (with a little jitter), odd ones have flipped bytes."""
    if number % 2 == 0:
        place = len(data) * (number // 2 % CUTS) // CUTS + chance.randrange(max(1, len(data) // CUTS))
        return data[:place]
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 4, 64))):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def main(seed: str, variants: str, *files: str) -> None:
    """Read every variant of every file and print what came of them."""
    signal.signal(signal.SIGALRM, _late)
    outcome, failures = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        target, parts = Path(scratch) / "x.bin", Path(scratch) / "parts"
        for name in files:
            data = unpacked(Path(name))
            chance = random.Random(f"{seed} {Path(name).name}")
            for number in chance.sample(range(2 * CUTS), min(int(variants), 2 * CUTS)) if data else ():
                target.write_bytes(variant(data, number, chance))
                signal.alarm(READ_SECONDS)
                try:
                    [result], _ = read_capture([target], target, parts)
                    outcome[result.read_state] += 1
                except BadInput as error:
                    outcome["refused" if str(error).strip() else "untold"] += 1
                except BaseException:
                    failures.append(f"{name} variant {number}: {traceback.format_exc(limit=-3)}")
                finally:
                    signal.alarm(0)
                    shutil.rmtree(parts, ignore_errors=True)
    print(json.dumps({"outcome": outcome, "failures": failures, "peak_mib": peak_bytes() >> 20}))


if __name__ == "__main__":
    main(*sys.argv[1:])
