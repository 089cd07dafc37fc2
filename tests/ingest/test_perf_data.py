"""perf.data through `perf`: what is run, what is said when it can't be, and that both forms of a recording agree."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest

from ingest import perf_script
from ingest.errors import BadInput
from ingest.perf_data import IMPORTER
from tests.ingest.support import SHARED, counts_of, ingest_file
from tests.ingest.text_damage import rows_of, write

DATA = Path(__file__).parents[1] / "data" / "perf"
COLUMNS = ("event", "thread_id", "process_name", "cpu_index", "call_path_id")
MAGIC = b"PERFILE2" + b"\x68" + b"\0" * 7
has_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed here")


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A program `perf` that writes its arguments and environment down and then runs `script`; the file it writes to."""
    folder = tmp_path / "bin"
    folder.mkdir()
    seen = tmp_path / "seen.txt"
    program = folder / "perf"
    program.write_text(f'#!/bin/sh\necho "$@" >> {seen}\necho "config=$PERF_CONFIG" >> {seen}\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PERF_CONFIG", "/home/somebody/config-that-runs-things")
    return seen


@pytest.mark.parametrize("magic", [b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"])
def test_the_text_is_read(magic: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = stand_in(tmp_path, monkeypatch, f"cat {DATA / 'native.txt'}")
    tables = ingest_file(write(tmp_path, gzip.compress(magic + b"\0" * 100)), tmp_path, IMPORTER)
    expected = ingest_file(DATA / "native.txt", tmp_path, perf_script.IMPORTER)
    assert all(tables[name].equals(expected[name]) for name in expected)
    arguments, config = seen.read_text().splitlines()
    assert re.fullmatch(
        r"--no-pager script --force --header --ns --no-inline --show-lost-events"
        r" -F comm,pid,tid,cpu,time,period,event,trace,ip,sym,dso -i /.*/perf\.data",
        arguments,
    )
    assert config == "config=/dev/null"
    assert not list(tmp_path.glob("parts*/.perf-*"))


def test_fields_that_were_not_recorded_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = 'case "$*" in *cpu*) echo "do not have CPU attribute set" >&2; exit 255;; esac'
    seen = stand_in(tmp_path, monkeypatch, f"{refusal}\ncat {DATA / 'kmem.txt'}")
    tables = ingest_file(write(tmp_path, MAGIC), tmp_path, IMPORTER)
    assert tables["stack_samples"].height == 56
    assert len(seen.read_text().splitlines()) == 4
    assert not any(severity != "info" for _, severity in counts_of(tables))


def test_what_perf_printed_before_it_stopped_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"cat {DATA / 'native.txt'}\necho 'corrupt  callchain\nat 7' >&2\nexit 1")
    tables = ingest_file(write(tmp_path, MAGIC), tmp_path, IMPORTER)
    assert tables["stack_samples"].height == 35
    assert counts_of(tables)["perf_stopped_early", "data_loss"] == 1
    assert "corrupt callchain at 7" in " ".join(filter(None, tables["diagnostics"]["detail"]))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'incompatible file format' >&2; exit 255",
            r"`perf` failed \(incompatible file format\); run `perf script ",
        ),
        (
            "echo '# ========'; echo '# hostname : x'; echo '# ========'",
            "perf finds no sample in it; run `perf script ",
        ),
    ],
)
def test_refusals(script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, script)
    path = write(tmp_path, MAGIC)
    with pytest.raises(BadInput, match=said) as refused:
        ingest_file(path, tmp_path, IMPORTER)
    assert refused.value.where == str(path)
    assert "\n" not in str(refused.value)


def test_without_perf_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        BadInput, match=r"needs `perf`, which is not on the path; run `perf script --header --ns -F comm,"
    ):
        ingest_file(write(tmp_path, MAGIC), tmp_path, IMPORTER)


def test_hotspot_profiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"hotspot's perfparser, not a recording of perf; pass the perf\.data"):
        ingest_file(write(tmp_path, b"QPERFSTREAM\0\x13\0\0\0"), tmp_path, IMPORTER)


@has_perf
def test_a_recording_of_pipe_mode(tmp_path: Path) -> None:
    """Read by the real perf; the recording has 9 samples of `ls`, as `perf report --stats` says."""
    tables = ingest_file(DATA / "pipe.perf.data", tmp_path, IMPORTER)
    assert tables["stack_samples"].height == 9
    assert tables["stack_samples"]["weight"].to_list() == [250_000] * 9
    assert set(tables["stack_samples"]["process_name"]) <= {"ls", "perf-exec"}


def test_what_a_cut_recording_lost_is_told(tmp_path: Path) -> None:
    """perf ends well on it, and only warns."""
    whole = (DATA / "pipe.perf.data").read_bytes()
    (tmp_path / "cut.data").write_bytes(whole[: len(whole) * 9 // 10])
    tables = ingest_file(tmp_path / "cut.data", tmp_path, IMPORTER)
    assert counts_of(tables) == {("perf_warnings", "data_loss"): 1}
    kept, all_of_it = tables["stack_samples"], ingest_file(DATA / "pipe.perf.data", tmp_path, IMPORTER)["stack_samples"]
    assert 0 < kept.height < all_of_it.height
    (tmp_path / "head.data").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"no sample in it .unexpected end of event stream"):
        ingest_file(tmp_path / "head.data", tmp_path, IMPORTER)


@has_perf
@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_recording_and_text_agree(tmp_path: Path) -> None:
    folder = SHARED / "captures" / "host_kmem"
    recording = ingest_file(folder / "kmem_perf.data.gz", tmp_path, IMPORTER)
    text = ingest_file(folder / "kmem_perf_script.txt.gz", tmp_path, perf_script.IMPORTER)
    for table, columns in (
        ("stack_samples", COLUMNS),
        ("memory_events", ("action", "thread_id", "address", "size_bytes", "name", "user_metadata", "call_path_id")),
    ):
        assert rows_of(recording, table, columns) == rows_of(text, table, columns)
    times = [rows_of(tables, "stack_samples", ("ts_ns",)) for tables in (recording, text)]
    assert all(0 <= exact[0] - rounded[0] < 1000 for exact, rounded in zip(*times, strict=True))
