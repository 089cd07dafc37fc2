"""Folded stacks: line by line what stackcollapse-perf.pl answers, from our tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest import collapsed, perf_script
from ingest.errors import BadInput
from ingest.registry import Importer
from reports.folded import FoldedOptions, folded_lines
from reports.source import CaptureTables
from tests.ingest.support import SHARED, read_into
from tests.ingest.text_damage import write

CORPUS = SHARED / "corpus"
RESULTS = CORPUS / "collapsed" / "brendangregg+FlameGraph" / "test" / "results"
TEXTS = CORPUS / "perf_script" / "brendangregg+FlameGraph" / "test"
OPTIONS = {
    "pid": FoldedOptions(pid=True),
    "tid": FoldedOptions(tid=True),
    "kernel": FoldedOptions(kernel=True),
    "jit": FoldedOptions(jit=True),
    "all": FoldedOptions(kernel=True, jit=True),
    "addrs": FoldedOptions(addrs=True),
}
ADDRESS = "ffffffff81000000"


def tables_of(path: Path, tmp_path: Path, importer: Importer = perf_script.IMPORTER) -> CaptureTables:
    """The tables of a capture of that one file."""
    parts, capture = tmp_path / "parts", tmp_path / "capture"
    parts.mkdir()
    read_into(path, parts, importer)
    for part in parts.glob("*/*.parquet"):
        (capture / "tables" / part.parent.name).mkdir(parents=True)
        part.rename(capture / "tables" / part.parent.name / part.name)
    return CaptureTables(capture)


def folded(text: str, tmp_path: Path, options: FoldedOptions | None = None, **kind: Importer) -> list[str]:
    with tables_of(write(tmp_path, text), tmp_path, **kind) as tables:
        return list(folded_lines(tables, options or FoldedOptions()))


@pytest.mark.skipif(not RESULTS.exists(), reason="the corpus is not beside the checkout")
def test_the_answers_of_stackcollapse_perf(tmp_path: Path) -> None:
    answers = sorted(RESULTS.glob("*.txt"))
    assert len(answers) >= 16
    for number, answer in enumerate(answers):
        name, option = answer.stem.rsplit("-collapsed-")
        folder = tmp_path / str(number)
        folder.mkdir()
        with tables_of(TEXTS / f"{name}.txt", folder) as tables:
            assert list(folded_lines(tables, OPTIONS[option])) == answer.read_text().splitlines(), answer.name


def test_first_event_and_periods(tmp_path: Path) -> None:
    """By hand: periods of the first event are summed; a stack is root first; the other event is left out."""
    text = (
        "a b 7/8 [0] 1.000001: 100 cycles: \n\t 1 leaf (/x)\n\t 2 root (/x)\n\n"
        "a b 7/8 [0] 1.000002: 11 cycles: \n\t 1 leaf (/x)\n\t 2 root (/x)\n\n"
        "a b 7/8 [0] 1.000003: 5 faults: \n\t 1 leaf (/x)\n\n"
        "c 9/9 [0] 1.000004: 0 cycles: \n\n"
    )
    assert folded(text, tmp_path) == ["a_b;root;leaf 111", "c 1"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (FoldedOptions(event="faults"), ["c 1"]),
        (FoldedOptions(pid=True), ["c-9 4"]),
        (FoldedOptions(tid=True), ["c-9/10 4"]),
    ],
)
def test_options(options: FoldedOptions, expected: list[str], tmp_path: Path) -> None:
    text = "c 9/10 [0] 1.000004: 4 cycles: \n\nc 9/10 [0] 1.000004: 1 faults: \n\n"
    assert folded(text, tmp_path, options) == expected


def test_tracepoints_come_along_with_their_number(tmp_path: Path) -> None:
    text = (
        "x 1 1.000001: 7 cycles: \n\n"
        "x 1 1.000002: 9 sched:sched_switch: prev_comm=a\n\n"
        "x 1 1.000003: 9 kmem:kfree: call_site=f+0x1 ptr=0xff\n\n"
    )
    assert folded(text, tmp_path) == ["x 8", "x;f 1"]


FRAMES = {
    "foo+0x12 (/x)": "foo",
    "[unknown] (/lib/libc.so)": "[libc.so]",
    "[unknown] ([kernel.kallsyms])": "[[kernel.kallsyms]]",
    "[unknown] ([unknown])": "[unknown]",
    "[unknown] (/dev/zero (deleted))": "[unknown] ",
    " (/lib/libc.so)": " ",
    "f(int, char) (/x)": "f",
    "(anonymous namespace)::f (/x)": None,
    "n::(anonymous namespace)::f(int) (/x)": "n::(anonymous namespace)::f",
    "net/http.(*conn).serve (/x)": "net/http.(*conn).serve",
    "Lorg/A;::call (/tmp/perf-7.map)": "Lorg/A:::call",
    'a->b->"c" (/x)': "a;b_[i];c_[i]",
    "P::operator->() const (/x)": "P::operator;_[i]",
}


@pytest.mark.parametrize(("printed", "shown"), FRAMES.items())
def test_frames(printed: str, shown: str | None, tmp_path: Path) -> None:
    """As stackcollapse-perf.pl answered for each of these lines."""
    text = f"x 1 1.000001: 7 cycles: \n\t{ADDRESS} {printed}\n\n"
    assert folded(text, tmp_path) == [f"x;{shown} 7" if shown is not None else "x 7"]


@pytest.mark.parametrize(
    ("comm", "printed", "options", "shown"),
    [
        ("java", "Lorg/A;::call (/tmp/perf-7.map)", FoldedOptions(jit=True), "org/A:::call_[j]"),
        ("javac", "Lorg/A;::call (/tmp/perf-7.map)", FoldedOptions(jit=True), "Lorg/A:::call_[j]"),
        ("x", "f ([kernel.kallsyms])", FoldedOptions(kernel=True), "f_[k]"),
        ("x", "f (/boot/vmlinux)", FoldedOptions(kernel=True), "f_[k]"),
        ("x", "f ([unknown])", FoldedOptions(kernel=True), "f"),
        ("x", "[unknown] (/lib/libc.so)", FoldedOptions(addrs=True), f"[libc.so <{ADDRESS}>]"),
    ],
)
def test_marks(comm: str, printed: str, options: FoldedOptions, shown: str, tmp_path: Path) -> None:
    text = f"{comm} 1 1.000001: 7 cycles: \n\t{ADDRESS} {printed}\n\n"
    assert folded(text, tmp_path, options) == [f"{comm};{shown} 7"]


def test_folded_stacks_come_out_as_they_went_in(tmp_path: Path) -> None:
    text = "a;b c;d(int)->e 3\na 1\na;b c;d(int)->e 4\nz;[unknown] 5\n"
    lines = folded(text, tmp_path, importer=collapsed.IMPORTER)
    assert lines == ["a 1", "a;b c;d(int)->e 7", "z;[unknown] 5"]


def test_nothing_to_fold(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=re.escape("no samples of the event 'x'; choose one of cycles")):
        folded("x 1 1.000001: 7 cycles: \n\n", tmp_path, FoldedOptions(event="x"))
    empty = tmp_path / "empty"
    (empty / "tables").mkdir(parents=True)
    with CaptureTables(empty) as tables, pytest.raises(BadInput, match="no stack samples"):
        list(folded_lines(tables, FoldedOptions()))
