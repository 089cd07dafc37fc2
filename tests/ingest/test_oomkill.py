"""oomkill of bcc, libbpf-tools and bpftrace: kills, who triggered them, stacks, damage."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ingest.oomkill import IMPORTER
from tests.ingest.stack_text import paths_of
from tests.ingest.support import check_importer
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, check_junk, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "bcc"
COLUMNS = ("ts_ns", "process_id", "name", "size_bytes", "user_metadata")
HEAD = "Tracing OOM kills... Ctrl-C to stop.\n"
KILL = (
    '21:03:39 Triggered by PID 3297 ("ntpd"), OOM kill of PID 22516 ("perl"), 3850642 pages, '
    "loadavg: 0.99 0.39 0.30 3/282 22724\n"
)


@pytest.mark.parametrize("name", ["oomkill_example.txt", "oomkill_bpftrace_example.txt"])
def test_the_kills_of_the_example_pages(name: str, tmp_path: Path) -> None:
    tables = check_importer(DATA / name, tmp_path, IMPORTER)
    pattern = r'^(\d\d):(\d\d):(\d\d) .* PID (\d+) \("(\w+)"\), .* PID (\d+) \("(\w+)"\), (\d+) pages, loadavg: (.*)$'
    found = re.findall(pattern, (DATA / name).read_text(), re.MULTILINE)
    assert len(found) == 2
    rows = rows_of(tables, "memory_events", COLUMNS)
    for row, (h, m, s, trigger, comm, victim, killed, pages, load) in zip(rows, found, strict=True):
        time = ((int(h) * 60 + int(m)) * 60 + int(s)) * 10**9
        assert row[:4] == (time, int(victim), killed, int(pages) * 4096)
        assert json.loads(row[4]) == {"loadavg": load, "trigger_comm": comm, "trigger_pid": int(trigger)}
    loads = rows_of(tables, "metrics", ("metric", "value"))
    assert loads[3:] == [("node_load1", 0.99), ("node_load5", 0.41), ("node_load15", 0.3)]
    assert tables["memory_events"].select("level", "action").unique().rows() == [("host", "oom")]
    assert data_loss(tables) == {}


def test_cgroups_stacks_and_names(tmp_path: Path) -> None:
    cgroup = 'CGROUP 7481 ("unified:/system.slice/a \\"b\\".scope"), '
    text = HEAD + KILL.replace("OOM", cgroup + "OOM").replace("perl", 'a") b, ("c')
    text += "  Stack trace:\n    b'malloc'\n    main\n" + KILL + "  Failed to capture stack trace\n"
    text += KILL.split(", loadavg")[0] + "\nLost 3 events on CPU #1!\n"
    tables = read_text(text, tmp_path, IMPORTER)
    rows = rows_of(tables, "memory_events", COLUMNS)
    assert [row[2] for row in rows] == ['a") b, ("c', "perl", "perl"]
    first = json.loads(rows[0][4])
    assert (first["cgroup_id"], first["cgroup_path"]) == (7481, 'unified:/system.slice/a \\"b\\".scope')
    assert paths_of(tables, "memory_events") == [["malloc", "main"], [], []]
    assert data_loss(tables) == {"lost_events": 3}
    assert tables["metrics"].height == 6


def test_a_recording_without_a_kill(tmp_path: Path) -> None:
    assert read_text(HEAD, tmp_path, IMPORTER) == {}


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA / "oomkill_example.txt", tmp_path, IMPORTER)
    long = tmp_path / "long.txt"
    long.write_text(HEAD + "".join(KILL.replace("22516", str(n)) for n in range(200)))
    columns = ("process_id", "name", "size_bytes")
    check_cuts(long, tmp_path, IMPORTER, "memory_events", columns)
    check_flips(long, tmp_path, IMPORTER, "memory_events", columns, rows_a_line=1, seeds=range(10))
    tables = read_text(HEAD + KILL.replace("22516", "2x") + KILL.replace("3850642", "9" * 30), tmp_path, IMPORTER)
    assert data_loss(tables) == {"damaged_rows": 1, "numbers_beyond_64_bits": 1}
    check_junk(HEAD.encode(), tmp_path, IMPORTER, lambda chance: b"Triggered by PID " + chance.randbytes(20))
