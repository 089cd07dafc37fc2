"""What a small hostile pickle may cost: memory in proportion to the file, no crash, and room for honest files."""

from __future__ import annotations

import gc
import gzip
import os
import pickle
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.torch_unpickle import load_plain


def _write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data)
    return path


_MEASURE = """
import resource, sys
from pathlib import Path
from ingest.errors import BadInput
from ingest.torch_unpickle import load_plain
from tests.ingest.peak_memory import peak_bytes, reset_peak
before = reset_peak()
try:
    load_plain(Path(sys.argv[1]))
    print("loaded")
except BadInput as error:
    print(str(error))
print((peak_bytes() - before) >> 20)
print(resource.getrlimit(resource.RLIMIT_AS) == (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def _alone(path: Path) -> tuple[str, int]:
    """Outcome and MiB needed by a fresh process, which must not die."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).resolve().parents[2],
        env={key: value for key, value in os.environ.items() if key != "PYTHONHOME"},
    )
    assert done.returncode == 0, done.stderr[-500:]
    outcome, grown, limits_restored = done.stdout.splitlines()
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        assert limits_restored == "True"
    return outcome, int(grown)


@pytest.mark.parametrize("index", [2**32 - 1, 2**30, 90_000_000])
def test_a_memo_index_out_of_proportion(index: int, tmp_path: Path) -> None:
    path = _write(tmp_path, b"\x80\x04Nr" + struct.pack("<I", index) + b".")
    outcome, grown = _alone(path)
    assert "needs more memory" in outcome
    assert grown < 300


@pytest.mark.parametrize(
    "opcodes",
    [
        pytest.param(b"\x8d" + struct.pack("<Q", 2**62), id="BINUNICODE8 of 4 EiB"),
        pytest.param(b"\x8d" + struct.pack("<Q", 2**34), id="BINUNICODE8 of 16 GiB"),
        pytest.param(b"\x8e" + struct.pack("<Q", 2**33), id="BINBYTES8 of 8 GiB"),
        pytest.param(b"B" + struct.pack("<I", 2**32 - 1), id="BINBYTES of 4 GiB"),
        pytest.param(b"X" + struct.pack("<I", 2**31), id="BINUNICODE of 2 GiB"),
        pytest.param(b"\x96" + struct.pack("<Q", 2**34), id="BYTEARRAY8 of 16 GiB"),
        pytest.param(b"\x95" + struct.pack("<Q", 2**40), id="FRAME of 1 TiB"),
        pytest.param(b"\x8b" + struct.pack("<i", 2**31 - 1), id="LONG4 of 2 GiB"),
        pytest.param(b"\x8b" + struct.pack("<i", -5), id="LONG4 of negative length"),
    ],
)
def test_a_declared_length_out_of_proportion(opcodes: bytes, tmp_path: Path) -> None:
    path = _write(tmp_path, b"\x80\x05" + opcodes + b"abc.")
    outcome, grown = _alone(path)
    assert outcome.startswith(str(path))
    assert grown < 300


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"]" * 500_000 + b"a" * 499_999 + b".", id="lists"),
        pytest.param(b"}" + b"N}" * 300_000 + b"s" * 300_000 + b".", id="dicts"),
        pytest.param(b")" + b"\x85" * 500_000 + b".", id="tuples"),
        pytest.param(b"})" + b"\x85" * 1_000_000 + b"Ns.", id="tuples as a dictionary key"),
    ],
)
def test_deep_nesting_does_not_kill_the_process(data: bytes, tmp_path: Path) -> None:
    outcome, grown = _alone(_write(tmp_path, b"\x80\x04" + data))
    assert outcome == "loaded" or "memory" in outcome
    assert grown < 400


def test_lists_that_hold_each_other_stay_small(tmp_path: Path) -> None:
    """Thirty lists, each twice the one before: a gigabyte when printed, a few bytes as objects."""
    data = b"\x80\x04N" + b"".join(b"q%c0](h%ch%ceq%c" % (i, i, i, i + 1) for i in range(30)) + b"."
    value = load_plain(_write(tmp_path, data))
    for _ in range(30):
        assert len(value) == 2
        assert value[0] is value[1]
        value = value[0]


def test_the_limit_leaves_room_for_honest_files(tmp_path: Path) -> None:
    events = [
        {"action": "alloc", "addr": i * 512, "size": i, "frames": [], "time_us": 10**15 + i} for i in range(80_000)
    ]
    path = _write(tmp_path, pickle.dumps(events, 4))
    assert load_plain(path) == events
    packed = _write(tmp_path, gzip.compress(path.read_bytes()))
    assert load_plain(packed) == events


def test_garbage_collection_is_on_again_afterwards(tmp_path: Path) -> None:
    assert gc.isenabled()
    load_plain(_write(tmp_path, pickle.dumps({"segments": []})))
    assert gc.isenabled()
    with pytest.raises(BadInput):
        load_plain(_write(tmp_path, b"\x80\x04"))
    assert gc.isenabled()
