"""stackcount's text: all stacks of the example page against counts made another way, options, damage."""

from __future__ import annotations

import re
from pathlib import Path

from ingest.stackcount import IMPORTER
from tests.ingest.stack_text import paths_of
from tests.ingest.support import check_importer, counts_of
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, check_junk, data_loss, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "bcc" / "stackcount_example.txt"
COLUMNS = ("event", "ts_ns", "process_id", "process_name", "sample_count")
HEAD = 'Tracing 1 functions for "submit_bio"... Hit Ctrl-C to end.\n^C\n'
STACK = "  submit_bio\n  kthread\n    jbd2/xv [da1]-8 [405]\n    7\n\n"


def test_the_sessions_of_the_example_page(tmp_path: Path) -> None:
    tables = check_importer(DATA, tmp_path, IMPORTER)
    rows = rows_of(tables, "stack_samples", COLUMNS)
    text = DATA.read_text()
    counts = re.findall(r"^(?: +|\S+;\S+ )(\d+)$", text, re.MULTILINE)
    assert len(counts) == 60
    assert [row[4] for row in rows] == [int(count) for count in counts]
    pids = re.findall(r"^ +\S+ \[(\d+)\]$", text, re.MULTILINE)
    assert [row[2] for row in rows if row[2] is not None] == [int(pid) for pid in pids]
    day = (6 * 3600 + 5 * 60 + 14) * 10**9
    assert {row[1] for row in rows if row[0] == "submit_bio" and row[2] == 16039} == {day}
    assert rows[-1] == ("t:sched:sched_switch", None, None, "kworker/2:0", 1)
    paths = paths_of(tables)
    assert paths[0][0] == "submit_bio" and paths[0][-1] == "mb_cache_list"
    assert paths[-1] == ["__schedule", "schedule", "worker_thread", "kthread", "ret_from_fork"]
    assert "tcp_send_delayed_ack" in {path[0] for path in paths}  # printed as tcp_send_delayed_ack0x1
    lines = re.findall(r"^  \S.*$", text[: text.index("USAGE")], re.MULTILINE)
    frames = [line for line in lines if not re.match(r"  (pattern|-\w)", line)]
    assert sum(map(len, paths)) == len(frames) + sum(
        line.count(";") - line.count(";-;") for line in re.findall(r"^\S+;\S+ \d+$", text, re.MULTILINE)
    )
    assert data_loss(tables) == {}


def test_forms(tmp_path: Path) -> None:
    text = (
        HEAD + STACK + "  ffffffff817b05c1 b\n    --\n  00007f12         [unknown]\n    -1\n"
        "    b'tar' [5]\n    2\n\n23:59:59\n  a+0x1\n    1\n\n00:00:00\n  a+0x2\n    1\n\nDetaching...\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    midnight = 86_400 * 10**9
    assert rows_of(tables, "stack_samples", COLUMNS[1:]) == [
        (None, 405, "jbd2/xv [da1]-8", 7),
        (None, 5, "tar", 2),
        (midnight - 10**9, None, None, 1),
        (midnight, None, None, 1),
    ]
    assert paths_of(tables)[2:] == [["a"], ["a"]]


def test_what_is_damaged_is_left_out_whole(tmp_path: Path) -> None:
    for broken in (STACK.replace("    7\n", ""), STACK.replace("  kthread", "kthread"), STACK.replace("7", "9" * 30)):
        tables = read_text(HEAD + broken + STACK, tmp_path, IMPORTER)
        assert paths_of(tables) == [["submit_bio", "kthread"]]
        assert data_loss(tables).total() == 1
    tables = read_text(HEAD + "a line of somebody else\n" + STACK + "Detaching...\n", tmp_path, IMPORTER)
    assert counts_of(tables) == {("other_lines", "info"): 1}


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA, tmp_path, IMPORTER)
    long = tmp_path / "long.txt"
    long.write_text(HEAD + "".join(STACK.replace("7", str(n)) for n in range(300)) + "Detaching...\n")
    check_cuts(long, tmp_path, IMPORTER, "stack_samples", COLUMNS)
    check_flips(long, tmp_path, IMPORTER, "stack_samples", COLUMNS, rows_a_line=1, seeds=range(10))
    check_junk(HEAD.encode(), tmp_path, IMPORTER, lambda chance: b"  " + chance.randbytes(20))


def test_a_table_of_funccount_is_not_taken() -> None:
    text = HEAD + "FUNC                          COUNT\nvfs_read                         12\n"
    assert not IMPORTER.sniff(text.encode(), Path("x"))
