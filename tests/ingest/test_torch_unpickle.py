"""The unpickler that builds plain data only: nothing runs, nothing grows past the file, every damage is one line."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import BadInput, UnsafeInput
from ingest.torch_unpickle import load_plain

PLAIN = {
    "device_traces": [[{"action": "alloc", "addr": 2**47 + 512, "size": 4096, "frames": []}]],
    "segments": [{"blocks": [{"size": 1, "state": "inactive"}], "segment_pool_id": (0, 1)}],
    "others": [
        None,
        True,
        False,
        1.5,
        -1,
        2**70,
        -(2**300),
        b"\x00\xff",
        "text \u00e9 \U0001f600",
        (),
        (1,),
        (1, 2, 3),
    ],
}


class _Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


def _write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data)
    return path


def _one_line(error: BadInput, path: Path) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.startswith(str(path))
    assert "; " in text, "no word of what to do"


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol(protocol: int, tmp_path: Path) -> None:
    others = PLAIN["others"] if protocol >= 3 else [o for o in PLAIN["others"] if not isinstance(o, bytes)]
    data = {**PLAIN, "others": others}
    assert load_plain(_write(tmp_path, pickle.dumps(data, protocol))) == data


def test_packed_pickles(tmp_path: Path) -> None:
    assert load_plain(_write(tmp_path, gzip.compress(pickle.dumps(PLAIN)))) == PLAIN


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, subprocess.check_output, eval], ids=lambda f: f.__name__)
def test_a_pickle_that_runs_a_command_is_refused_and_runs_nothing(function: Any, protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    commands = {
        os.system: f"touch {mark}",
        subprocess.check_output: ["touch", str(mark)],
        eval: f"open({str(mark)!r}, 'w')",
    }
    bad = {"segments": [], "device_traces": _Call(function, commands[function])}
    data = pickle.dumps(bad, protocol)
    path = _write(tmp_path, data)
    with pytest.raises(UnsafeInput, match=r"the pickle asks for .*nothing of the file was executed") as refused:
        load_plain(path)
    _one_line(refused.value, path)
    assert function.__name__ in str(refused.value)
    assert not mark.exists()
    if protocol == 4:  # the same bytes do run under the plain unpickler: the payload is a real one
        pickle.loads(data)
        assert mark.exists()


_SYSTEM = b"cposix\nsystem\n"
_STACK_SYSTEM = b"\x8c\x05posix\x8c\x06system\x93"


@pytest.mark.parametrize(
    ("opcodes", "refusal"),
    [
        pytest.param(_SYSTEM + b".", UnsafeInput, id="GLOBAL"),
        pytest.param(b"\x80\x04" + _STACK_SYSTEM + b".", UnsafeInput, id="STACK_GLOBAL"),
        pytest.param(_SYSTEM + b"(V@\ntR.", UnsafeInput, id="GLOBAL REDUCE"),
        pytest.param(b"\x80\x04" + _STACK_SYSTEM + b"\x8c\x01@\x85R.", UnsafeInput, id="STACK_GLOBAL REDUCE"),
        pytest.param(b"(V@\niposix\nsystem\n.", UnsafeInput, id="INST"),
        pytest.param(b"(" + _SYSTEM + b"V@\no.", UnsafeInput, id="OBJ"),
        pytest.param(_SYSTEM + b")\x81.", UnsafeInput, id="NEWOBJ"),
        pytest.param(b"\x80\x04" + _STACK_SYSTEM + b")}\x92.", UnsafeInput, id="NEWOBJ_EX"),
        pytest.param(_SYSTEM + b"}b.", UnsafeInput, id="BUILD"),
        pytest.param(b"cbuiltins\nprint\n.", UnsafeInput, id="harmless GLOBAL"),
        pytest.param(b"ccollections\nOrderedDict\n)R.", UnsafeInput, id="harmless REDUCE"),
        pytest.param(b"\x80\x02]R.", BadInput, id="REDUCE of a list"),
        pytest.param(b"\x80\x02]})R.", BadInput, id="REDUCE of a dict"),
        pytest.param(b"\x80\x02}}V__class__\nNsb.", BadInput, id="BUILD of a dict"),
        pytest.param(b"\x80\x02]})\x81.", BadInput, id="NEWOBJ of a dict"),
        pytest.param(b"\x80\x02(]o.", BadInput, id="OBJ of a list"),
        pytest.param(b"\x80\x02\x82\x01.", BadInput, id="EXT1"),
        pytest.param(b"\x80\x02\x83\x01\x01.", BadInput, id="EXT2"),
        pytest.param(b"\x80\x02\x84\x01\x01\x01\x01.", BadInput, id="EXT4"),
        pytest.param(b"Pany\n.", UnsafeInput, id="PERSID"),
        pytest.param(b"\x80\x02Vany\nQ.", UnsafeInput, id="BINPERSID"),
        pytest.param(b"\x80\x05\x97.", BadInput, id="NEXT_BUFFER"),
        pytest.param(b"\x80\x05]\x98.", BadInput, id="READONLY_BUFFER"),
        pytest.param(b"\x80\x09N.", BadInput, id="protocol 9"),
        pytest.param(b"\x80\x02\xff.", BadInput, id="unknown opcode"),
        pytest.param(b"\x80\x02.", BadInput, id="empty stack"),
        pytest.param(b"\x80\x02h\x07.", BadInput, id="unset memo"),
        pytest.param(b"\x80\x02}](s.", BadInput, id="unhashable key or early mark"),
        pytest.param(b"\x80\x02}]Ns.", BadInput, id="unhashable key"),
        pytest.param(b"L" + b"9" * 5000 + b"L\n.", BadInput, id="number of 5000 digits"),
        pytest.param(b"Iabc\n.", BadInput, id="INT without digits"),
        pytest.param(b"\x80\x02X\x02\x00\x00\x00\xff\xfe.", BadInput, id="text that is no UTF-8"),
        pytest.param(b"", BadInput, id="empty"),
    ],
)
def test_instructions_that_reach_outside_are_refused(opcodes: bytes, refusal: type[BadInput], tmp_path: Path) -> None:
    path = _write(tmp_path, opcodes)
    with pytest.raises(refusal) as refused:
        load_plain(path)
    _one_line(refused.value, path)


def test_an_extension_code_that_this_process_knows_is_refused_as_well(tmp_path: Path) -> None:
    import copyreg

    copyreg.add_extension("posix", "system", 201)
    try:
        with pytest.raises(UnsafeInput):
            load_plain(_write(tmp_path, b"\x80\x02\x82\xc9."))
    finally:
        copyreg.remove_extension("posix", "system", 201)


@pytest.mark.parametrize("value", [OrderedDict(a=1), {1, 2}, bytearray(b"x"), complex(1, 2), Path("/tmp")], ids=repr)
def test_objects_that_are_no_plain_data(value: Any, tmp_path: Path) -> None:
    """Sets have instructions of their own and are plain; the rest need a global."""
    path = _write(tmp_path, pickle.dumps({"segments": value}, 4))
    if isinstance(value, set):
        assert load_plain(path) == {"segments": value}
    else:
        with pytest.raises(UnsafeInput):
            load_plain(path)


def test_truncated_anywhere(tmp_path: Path) -> None:
    data = pickle.dumps(PLAIN | {"more": [{"size": i, "frames": [str(i)]} for i in range(300)]}, 4)
    for cut in [*range(60), *range(60, len(data), len(data) // 100), len(data) - 1]:
        path = _write(tmp_path, data[:cut])
        with pytest.raises(BadInput) as refused:
            load_plain(path)
        _one_line(refused.value, path)
        assert not isinstance(refused.value, UnsafeInput)


def test_a_truncated_gzip_of_a_pickle(tmp_path: Path) -> None:
    whole = gzip.compress(pickle.dumps([random.Random(1).randbytes(40) for _ in range(4000)]))
    for tenth in range(1, 10):
        path = _write(tmp_path, whole[: len(whole) * tenth // 10])
        with pytest.raises(BadInput, match="ends early or is damaged"):
            load_plain(path)


def test_flipped_bytes_end_in_plain_data_or_one_line(tmp_path: Path) -> None:
    data = pickle.dumps(PLAIN | {"more": [{"size": i, "name": f"n{i}"} for i in range(40)]}, 4)
    source = random.Random(5)
    outcomes = set()
    for _ in range(600):
        spoiled = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 8))):
            spoiled[source.randrange(len(spoiled))] = source.randrange(256)
        path = _write(tmp_path, bytes(spoiled))
        try:
            load_plain(path)
            outcomes.add("loaded")
        except BadInput as error:
            _one_line(error, path)
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}
