"""bpftrace's maps: recorded text and JSON against a second reading, keys of all shapes, damage."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ingest.bpftrace_entries import Key, parse_key, unit_of_map
from ingest.bpftrace_maps import IMPORTER
from ingest.clocks import ClockPair
from tests.ingest.stack_text import paths_of
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)  # fmt: skip

DATA = Path(__file__).parents[1] / "data" / "bpftrace_maps"
SAMPLE = ("event", "process_id", "process_name", "sample_count", "weight", "unit")
HEAD = "Attaching 3 probes...\n"
ENTRY = "@bytes[\n    vfs_read+1\n    ksys_read+22\n, bash, 12]: 7\n"


def test_recorded_text(tmp_path: Path) -> None:
    tables = check_importer(DATA / "maps.txt", tmp_path, IMPORTER)
    text = (DATA / "maps.txt").read_text()
    samples = rows_of(tables, "stack_samples", SAMPLE)
    counts = {name: sum(row[3] for row in samples if row[0].split(" ")[0] == name) for name in ("@", "@b", "@us", "@v")}
    for name in ("@", "@b", "@us"):
        found = re.findall(rf"(?ms)^{name}\[\n.*?\]: (\d+)$", text)
        assert len(found) == 8
        assert counts[name] == sum(map(int, found)), name
    assert counts["@v"] == len(re.findall(r"^@v\[", text, re.MULTILINE))
    frames = re.findall(r"^(?: {4,8}|\t[0-9a-f]+ )(\S+?)(?:\+\d+)?(?: \(.*\))?$", text, re.MULTILINE)
    buckets = [row for row in samples if row[0].startswith("@lh ")]
    paths = paths_of(tables)
    assert sum(len(path) for path, row in zip(paths, samples, strict=True) if row not in buckets) + 16 == len(frames)
    assert paths[0][:3] == ["__kvmalloc_node_noprof", "compute_scc", "bpf_check"]  # the kernel's part comes first
    assert paths[0][3] == "syscall /usr/lib/x86_64-linux-gnu/libc.so.6"
    assert samples[0] == ("@", 5869, "bpftrace", 1, None, "count")
    metrics = rows_of(tables, "metrics", ("metric", "labels", "value"))
    assert ("mx", None, 32768.0) in metrics
    assert ("st_sum", '{"key1":"24","key2":"kworker/1:0H"}', 32.0) in metrics
    assert ("h_bucket", '{"from":"16","key1":"kworker/1:0H","to":"32"}', 2.0) in metrics
    hist = re.findall(r" (\d+) \|", text[text.index("@hh: ") : text.index("@last")])
    assert sum(row[2] for row in metrics if row[0] == "hh_bucket") == sum(map(int, hist))
    assert counts_of(tables) == {("text_values", "info"): 1}  # @last: python


def test_recorded_json(tmp_path: Path) -> None:
    tables = check_importer(DATA / "maps.json", tmp_path, IMPORTER)
    maps: dict[str, object] = {}
    for line in (DATA / "maps.json").read_text().splitlines():
        if line.startswith('{"type"') and isinstance(json.loads(line)["data"], dict):
            maps |= json.loads(line)["data"]
    samples = rows_of(tables, "stack_samples", SAMPLE)
    totals = Counter({row[0].split(" ")[0]: 0 for row in samples})
    for row in samples:
        totals[row[0].split(" ")[0]] += row[3] if row[4] is None else row[4]  # @us: a name that is a unit
    for name in ("@", "@b", "@us"):
        assert totals[name] == sum(maps[name].values()), name
    assert totals["@lh"] == sum(bucket["count"] for buckets in maps["@lh"].values() for bucket in buckets)
    assert totals["@v"] == len(maps["@v"])
    metrics = rows_of(tables, "metrics", ("metric", "labels", "value"))
    expected = [("hh_bucket", b["min"], b["max"] + 1, b["count"]) for b in maps["@hh"]]
    found = [(name, json.loads(labels), value) for name, labels, value in metrics if name == "hh_bucket"]
    assert [(name, int(at["from"]), int(at["to"]), int(value)) for name, at, value in found] == expected
    assert {json.loads(at)["key1"]: v for name, at, v in metrics if name == "avg"} == maps["@avg"]
    assert counts_of(tables) == {("text_values", "info"): 1}


def test_histograms_by_stack_of_the_example_page(tmp_path: Path) -> None:
    tables = check_importer(DATA / "biostacks_example.txt", tmp_path, IMPORTER)
    rows = rows_of(tables, "stack_samples", ("event", "sample_count"))
    found = re.findall(r"^\[.*\) +(\d+) \|", (DATA / "biostacks_example.txt").read_text(), re.MULTILINE)
    assert [row[1] for row in rows] == [int(count) for count in found]
    assert rows[0][0] == "@usecs [65536, 131072)"
    assert [len(path) for path in paths_of(tables)] == [14] + [18] * 6
    assert data_loss(tables) == {}


@pytest.mark.parametrize("separator", [", ", ","])
@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (["\n    a+1\n    b+2\n", "bash", "12"], Key((("    a+1", "    b+2"),), ("bash", "12"))),
        (
            ["12", "\n    a+1\n", "\n\tff f+4 (/lib/x,y.so)\n"],
            Key((("    a+1",), ("\tff f+4 (/lib/x,y.so)",)), ("12",)),
        ),
        (["bash"], Key((), ("bash",))),
        ([""], Key()),
    ],
)
def test_keys(parts: list[str], key: Key, separator: str) -> None:
    assert parse_key(separator.join(parts), separator) == key


def test_who_and_what_a_map_counts(tmp_path: Path) -> None:
    text = HEAD + ENTRY + ENTRY.replace("bytes", "").replace(", bash, 12", ", 3, 12, vfs")
    text += ENTRY.replace("bytes", "usecs").replace("]: 7", "]: count 2, average 5, total 10")
    text += "@alloc_bytes[bash]: 5\n@n: -3\n@[\n    f+1\n]: -3\n@t[1]: (2, 3)\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert rows_of(tables, "stack_samples", SAMPLE) == [
        ("@bytes", 12, "bash", 1, 7, "bytes"),
        ("@[3, 12]", None, "vfs", 7, None, "count"),
        ("@usecs", 12, "bash", 2, 10, "us"),
    ]
    assert rows_of(tables, "metrics", ("metric", "value", "unit")) == [("alloc_bytes", 5.0, "bytes"), ("n", -3.0, None)]
    assert counts_of(tables) == {("negative_values", "data_loss"): 1, ("text_values", "info"): 1}
    assert [unit_of_map(name) for name in ("", "x_bytes", "bytes", "reads", "lat_ns")] == [
        None, "bytes", "bytes", None, "ns",
    ]  # fmt: skip


def test_times(tmp_path: Path) -> None:
    text = "# bpftrace page_faults clock=boottime\n# at 500\n@a: 1\n# at 700\n@a: 2\n"
    assert read_text(text, tmp_path, IMPORTER)["metrics"]["ts_ns"].to_list() == [500, 700]
    assert read_into(write(tmp_path, text), tmp_path / "a", IMPORTER).clock == "boottime"
    pair = "# clock_pair position=end realtime=90 monotonic=7 boottime=8 monotonic_raw=9 width_ns=2\n"
    lost = "# lost_stacks=3\n# clock_pair position=middle realtime=1\n"
    sink = read_into(write(tmp_path, text + lost + pair), tmp_path / "b", IMPORTER)
    assert sink.clock_pairs == [ClockPair(90, 7, 8, 9, 2, "end")]
    assert sink.counts["stacks_lost_by_producer", "data_loss"][0] == 3
    assert sink.counts["damaged_clock_pairs", "data_loss"][0] == 1
    assert not read_into(write(tmp_path, text + pair[:60]), tmp_path / "c", IMPORTER).clock_pairs
    text = HEAD + "@a: 1\n\n00:00:05\n@a: 1\n"
    assert read_text(text, tmp_path, IMPORTER)["metrics"]["ts_ns"].to_list() == [None, 5 * 10**9]


def test_damaged_entries(tmp_path: Path) -> None:
    for broken in (ENTRY.replace("]: 7", ""), ENTRY.replace("]: 7", "] 7")):
        tables = read_text(HEAD + broken + ENTRY, tmp_path, IMPORTER)
        assert paths_of(tables) == [["vfs_read", "ksys_read"]]
        assert data_loss(tables) == {"damaged_entries": 1}
    endless = HEAD + ENTRY + "@x[\n" + "    f+1\n" * 20_000 + "Lost 9 events\n"
    tables = read_text(endless, tmp_path, IMPORTER)
    assert tables["stack_samples"].height == 1
    assert data_loss(tables)["damaged_entries"] == 1
    deep = '{"type": "map", "data": {"@": ' + "[" * 100_000 + "\n"
    tables = read_text(deep + '{"type": "map", "data": {"@": 99999999999999999999999}}\n', tmp_path, IMPORTER)
    assert data_loss(tables)["damaged_rows"] >= 1


def test_damage(tmp_path: Path) -> None:
    check_encodings(DATA / "maps.txt", tmp_path, IMPORTER)
    columns = ("event", "process_id", "sample_count")
    check_cuts(DATA / "maps.txt", tmp_path, IMPORTER, "stack_samples", columns)
    entries = tmp_path / "entries.txt"
    entries.write_text(HEAD + "".join(ENTRY.replace("12", str(n)) for n in range(200)))
    check_flips(entries, tmp_path, IMPORTER, "stack_samples", columns, rows_a_line=1, seeds=range(10))
    check_junk((HEAD + ENTRY).encode(), tmp_path, IMPORTER, lambda chance: b"@x[" + chance.randbytes(20) + b"]: 3x")


def test_other_text_is_not_taken(tmp_path: Path) -> None:
    for text in (
        "@param[in] x the value\n",
        "@todo: later\n",
        "@x[\nint a;\n",
        '{"type": "map"',
        "@lru_cache\ndef f():\n",
    ):
        assert not IMPORTER.sniff(text.encode(), Path("x")), text
    assert ingest_file(DATA / "maps.txt", tmp_path, IMPORTER)
