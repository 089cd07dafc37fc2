"""Host samples: the kernel's and numastat's own sums, what people paste with and without times, limits, damage."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest

from ingest.errors import UnsupportedVersion
from ingest.host_samples import IMPORTER
from tests.ingest.support import check_importer, counts_of, ingest_file, read_into
from tests.ingest.text_damage import (
    Rows,
    check_cuts,
    check_encodings,
    check_flips,
    check_junk,
    data_loss,
    read_text,
    rows_of,
    write,
)

DATA = Path(__file__).parents[1] / "data" / "host_samples"
COLUMNS = ("metric", "ts_ns", "value", "unit", "process_id", "labels")
T = 1_714_564_800
NS = 10**9


def found(rows: Rows) -> dict[tuple[object, object], object]:
    """(metric, labels) → value; no series twice."""
    assert len({(row[0], row[5]) for row in rows}) == len(rows)
    return {(row[0], row[5]): row[2] for row in rows}


def text_of(name: str) -> str:
    path = DATA / name
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def test_recorded(tmp_path: Path) -> None:
    path = DATA / "recorded.txt.gz"
    tables = check_importer(path, tmp_path, IMPORTER, golden=DATA / "golden/recorded.txt")
    rows = rows_of(tables, "metrics", COLUMNS)
    text = text_of("recorded.txt.gz")
    samples = [int(ns) for ns in re.findall(r"^# sample (\d+)", text, re.MULTILINE)]
    assert sorted({row[1] for row in rows}) == samples
    for key, metric, scale in (
        ("MemFree", "host_mem_free_bytes", 1024),
        ("VmRSS", "process_vm_rss_bytes", 1024),
        ("VmHWM", "process_vm_hwm_bytes", 1024),
        ("Pss_Anon", "process_pss_anon_bytes", 1024),
        ("nr_free_pages", "host_vmstat_nr_free_pages", 1),
        ("numa_hit", "host_numastat_numa_hit", 1),
    ):
        expected = [int(v) * scale for v in re.findall(rf"^{key}:?\s+(\d+)(?: kB)?$", text, re.MULTILINE)]
        if key == "numa_hit":
            expected = expected[1::2]  # /proc/vmstat has one too
        assert [row[2] for row in rows if row[0] == metric] == expected, key
        assert len(expected) >= 6
    assert {row[4] for row in rows if str(row[0]).startswith("process_")} == {
        int(pid) for pid in re.findall(r"^# file /proc/(\d+)/status", text, re.MULTILINE)
    }
    assert data_loss(tables) == {}
    sink = read_into(path, tmp_path / "again", IMPORTER)
    assert (sink.clock, sink.host, sink.format_version) == ("realtime", "vm", "1")
    start, end = sink.clock_pairs
    assert (start.clock_position, end.clock_position) == ("start", "end")
    assert start.realtime_ns <= samples[0] <= samples[-1] <= end.realtime_ns
    marks = re.findall(r"^# sample (\d+) (\d+)$", text, re.MULTILINE)
    offset = start.realtime_ns - (start.monotonic_ns or 0)
    assert all(abs(int(realtime) - int(monotonic) - offset) < 5_000_000 for realtime, monotonic in marks)


def test_smaps_add_up_to_the_kernels_rollup(tmp_path: Path) -> None:
    smaps = found(rows_of(ingest_file(DATA / "smaps.txt.gz", tmp_path, IMPORTER), "metrics", COLUMNS))
    rollup = found(rows_of(ingest_file(DATA / "smaps_rollup.txt", tmp_path, IMPORTER), "metrics", COLUMNS))
    assert len(rollup) == 22
    common = rollup.keys() & smaps.keys()
    assert len(common) >= 18
    for series in common:
        value = rollup[series]
        # The kernel rounds a mapping's shared pages down to KiB before it prints them.
        slack = 1024 * 200 if "pss" in str(series[0]) else 0
        assert smaps[series] == pytest.approx(value, abs=slack), series
    status = found(rows_of(ingest_file(DATA / "status.txt", tmp_path, IMPORTER), "metrics", COLUMNS))
    assert abs(float(str(status["process_vm_rss_bytes", None])) - float(str(rollup["process_rss_bytes", None]))) < 2**17


def test_numa_maps_add_up_to_numastat(tmp_path: Path) -> None:
    maps = rows_of(ingest_file(DATA / "numa_maps.txt", tmp_path, IMPORTER), "metrics", COLUMNS)
    tool = rows_of(ingest_file(DATA / "numastat_p.txt", tmp_path, IMPORTER), "metrics", COLUMNS)
    assert {row[4] for row in tool} == {int(re.findall(r"PID (\d+)", text_of("numastat_p.txt"))[0])}
    by_kind = found(maps)
    assert len(tool) == 4
    for series, value in found(tool).items():
        assert by_kind.get(series, 0) == pytest.approx(value, abs=2**20 * 0.006), series
    total = sum(int(n) for n in re.findall(r" N0=(\d+)", text_of("numa_maps.txt"))) * 4096
    assert sum(float(str(row[2])) for row in maps) == total


def test_numastat_of_the_system(tmp_path: Path) -> None:
    values = found(rows_of(ingest_file(DATA / "numastat_m.txt", tmp_path, IMPORTER), "metrics", COLUMNS))
    text = text_of("numastat_m.txt")
    free = float(re.findall(r"^MemFree\s+([\d.]+)", text, re.MULTILINE)[0])
    assert values["host_numa_mem_free_bytes", '{"node":"0"}'] == round(free * 2**20)
    hits = int(re.findall(r"^numa_hit\s+(\d+)", text, re.MULTILINE)[0])
    assert values["host_numastat_numa_hit", '{"node":"0"}'] == hits
    two = "                  node0   node1\nnuma_hit            11      22\nnuma_miss            0       3\n"
    assert found(rows_of(read_text(two, tmp_path, IMPORTER), "metrics", COLUMNS)) == {
        ("host_numastat_numa_hit", '{"node":"0"}'): 11,
        ("host_numastat_numa_hit", '{"node":"1"}'): 22,
        ("host_numastat_numa_miss", '{"node":"0"}'): 0,
        ("host_numastat_numa_miss", '{"node":"1"}'): 3,
    }


def test_the_tool_vmstat(tmp_path: Path) -> None:
    tables = check_importer(DATA / "vmstat.txt", tmp_path, IMPORTER, golden=DATA / "golden/vmstat.txt")
    text = [line.split() for line in text_of("vmstat.txt").splitlines()[2:]]
    rows = rows_of(tables, "metrics", COLUMNS)
    assert [row[2] for row in rows if row[0] == "host_memory_free_bytes"] == [int(line[3]) * 1024 for line in text]
    assert [row[2] for row in rows if row[0] == "host_memory_cache_bytes"] == [int(line[5]) * 1024 for line in text]
    assert (
        len({row[1] for row in rows}) == 4
        and read_into(DATA / "vmstat.txt", tmp_path / "a", IMPORTER).clock == "realtime"
    )


CGROUP = f"""\
{T}
==> /sys/fs/cgroup/user.slice/app/memory.current <==
1073741824

==> /sys/fs/cgroup/user.slice/app/memory.max <==
max

==> /sys/fs/cgroup/user.slice/app/memory.high <==
2147483648

==> /sys/fs/cgroup/user.slice/app/memory.events <==
low 0
high 12
max 3
oom 1
oom_kill 1

==> /sys/fs/cgroup/user.slice/app/memory.swap.events <==
high 0
max 7
fail 0

==> /sys/fs/cgroup/user.slice/app/memory.stat <==
anon 900000000
file 100000000
workingset_refault_anon 5
pgfault 77

==> /sys/fs/cgroup/user.slice/app/memory.pressure <==
some avg10=1.50 avg60=0.20 avg300=0.00 total=2500000
full avg10=0.50 avg60=0.00 avg300=0.00 total=1000000
"""


def test_cgroup_loop(tmp_path: Path) -> None:
    text = CGROUP + CGROUP.replace(str(T), str(T + 1)).replace("1073741824", "1073741825")
    path = write(tmp_path, text)
    rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [row[1] for row in rows] == [T * NS] * (len(rows) // 2) + [(T + 1) * NS] * (len(rows) // 2)
    app = '{"cgroup":"/user.slice/app"}'

    def event(name: str) -> str:
        return f'{{"cgroup":"/user.slice/app","event":"{name}"}}'

    values = found(rows[: len(rows) // 2])
    assert values["cgroup_memory_current_bytes", app] == 1 << 30
    assert values["cgroup_memory_high_bytes", app] == 1 << 31
    assert values["cgroup_memory_max_bytes", '{"cgroup":"/user.slice/app","is_unlimited":"true"}'] is None
    assert values["cgroup_memory_events_total", event("oom_kill")] == 1
    assert values["cgroup_memory_swap_events_total", event("max")] == 7
    assert values["cgroup_memory_stat_anon_bytes", app] == 900_000_000
    assert values["cgroup_memory_stat_pgfault_total", app] == 77
    stalled = '{"cgroup":"/user.slice/app","stalled":"some"'
    assert values["memory_pressure_ratio", f'{stalled},"window":"10s"}}'] == 0.015
    assert values["memory_pressure_seconds_total", f"{stalled}}}"] == 2.5
    assert len(values) == 3 + 5 + 3 + 4 + 8
    assert read_into(path, tmp_path / "again", IMPORTER).clock == "realtime"


@pytest.mark.parametrize(
    "heading", ["{}", "{}:", "=== {} ===", "# file {}", "$ cat {}", "+ cat {}", "--- {}", "==> {} <=="]
)
def test_headings(heading: str, tmp_path: Path) -> None:
    text = "".join(
        f"{heading.format(f'/sys/fs/cgroup/a/{name}')}\n{value}\n"
        for name, value in (("memory.current", 5), ("memory.max", 7), ("memory.stat", "anon 9"))
    )
    assert found(rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)) == {
        ("cgroup_memory_current_bytes", '{"cgroup":"/a"}'): 5,
        ("cgroup_memory_max_bytes", '{"cgroup":"/a"}'): 7,
        ("cgroup_memory_stat_anon_bytes", '{"cgroup":"/a"}'): 9,
    }


def test_the_path_before_each_line(tmp_path: Path) -> None:
    text = (
        "memory.current:4096\nmemory.max:max\nmemory.stat:anon 7\nmemory.stat:file 8\n/proc/42/smaps_rollup:Rss: 3 kB\n"
    )
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("cgroup_memory_current_bytes", 4096, None),
        ("cgroup_memory_max_bytes", None, None),
        ("cgroup_memory_stat_anon_bytes", 7, None),
        ("cgroup_memory_stat_file_bytes", 8, None),
        ("process_rss_bytes", 3072, 42),
    ]


@pytest.mark.parametrize(
    ("mark", "ns", "clock"),
    [
        (f"{T}", T * NS, "realtime"),
        ("2024-05-01T12:00:00+00:00", T * NS, "realtime"),
        ("=== Wed May  1 14:00:00 +0200 2024 ===", T * NS, "realtime"),
        ("2024-05-01 12:00:00", T * NS, "unknown"),
        (f"# sample {T * NS + 5}", T * NS + 5, "realtime"),
        (f"# sample {T * NS + 5} 777", T * NS + 5, "realtime"),
        ("", None, "unknown"),
    ],
)
def test_time_marks(mark: str, ns: int | None, clock: str, tmp_path: Path) -> None:
    text = f"{mark}\nRss: 10 kB\nPss: 4 kB\n"
    path = write(tmp_path, text)
    tables = ingest_file(path, tmp_path, IMPORTER)
    assert [row[:3] for row in rows_of(tables, "metrics", COLUMNS)] == [
        ("process_rss_bytes", ns, 10240),
        ("process_pss_bytes", ns, 4096),
    ]
    assert read_into(path, tmp_path / "again", IMPORTER).clock == clock
    assert counts_of(tables).get(("samples_without_time", "info"), 0) == (2 if ns is None else 0)


def test_one_copy_after_another_without_marks(tmp_path: Path) -> None:
    text = (
        "Rss: 1 kB\nPss: 1 kB\nRss: 2 kB\nPss: 2 kB\nlow 0\nhigh 1\nanon 5\nfile 6\nName:\tx\nPid:\t9\nVmRSS:\t 7 kB\n"
    )
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("process_rss_bytes", 1024, None),
        ("process_pss_bytes", 1024, None),
        ("process_rss_bytes", 2048, None),
        ("process_pss_bytes", 2048, None),
        ("cgroup_memory_events_total", 0, None),
        ("cgroup_memory_events_total", 1, None),
        ("cgroup_memory_stat_anon_bytes", 5, None),
        ("cgroup_memory_stat_file_bytes", 6, None),
        ("process_vm_rss_bytes", 7168, 9),
    ]
    named = rows_of(read_text("# pid 12\nRss: 1 kB\nPss: 1 kB\n", tmp_path, IMPORTER), "metrics", COLUMNS)
    assert {row[4] for row in named} == {12}


def test_version_1_of_cgroups(tmp_path: Path) -> None:
    text = (
        "==> /sys/fs/cgroup/memory/a/memory.usage_in_bytes <==\n4096\n"
        "==> /sys/fs/cgroup/memory/a/memory.limit_in_bytes <==\n9223372036854771712\n"
        "==> /sys/fs/cgroup/memory/a/memory.stat <==\ncache 1\nrss 2\nhierarchical_memory_limit 9223372036854771712\n"
    )
    rows = rows_of(read_text(text, tmp_path, IMPORTER), "metrics", COLUMNS)
    assert [(row[0], row[2]) for row in rows] == [
        ("cgroup_memory_current_bytes", 4096),
        ("cgroup_memory_max_bytes", None),
        ("cgroup_memory_stat_cache_bytes", 1),
        ("cgroup_memory_stat_rss_bytes", 2),
        ("cgroup_memory_stat_hierarchical_memory_limit_bytes", None),
    ]


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedVersion, match="leakpath-host 1 is supported"):
        read_text("# leakpath-host 2 {}\n# sample 1 1\n", tmp_path, IMPORTER)


def test_what_can_not_be_is_counted(tmp_path: Path) -> None:
    text = (
        "# leakpath-host 1 {]\n# sample 99999999999999999999 1\n# file /sys/fs/cgroup/a/memory.current\n"
        f"{2**61 + 1024}\n# file /sys/fs/cgroup/a/memory.stat\nanon 99999999999999999999\nanon 12x\n"
        "# file /sys/fs/cgroup/a/memory.pressure\nsome avg10=101.00 avg60=0.00 avg300=0.00 total=0\n"
        "# file /proc/1/status\nName:\tx\nVmRSS:\t 1z kB\n# file /sys/fs/cgroup/a/memory.numa_stat\nanon N0=1\n"
    )
    tables = read_text(text, tmp_path, IMPORTER)
    assert counts_of(tables)["files_left_out", "info"] == 1
    lost = data_loss(tables)
    assert lost["impossible_values"] == 2
    assert lost["damaged_values"] == 1
    assert lost["damaged_rows"] == 2  # the header and anon 12x
    assert lost["numbers_beyond_64_bits"] == 1
    assert {row[1] for row in rows_of(tables, "metrics", COLUMNS)} == {None}


@pytest.mark.parametrize("name", ["recorded.txt.gz", "vmstat.txt"])
def test_damage(name: str, tmp_path: Path) -> None:
    text = text_of(name)[:12_000]
    path = write(tmp_path, text[: text.rindex("\n") + 1])
    check_encodings(path, tmp_path, IMPORTER)
    if name == "recorded.txt.gz":
        check_cuts(path, tmp_path, IMPORTER, "metrics", COLUMNS, places=4)
        check_flips(path, tmp_path, IMPORTER, "metrics", COLUMNS, rows_a_line=250, seeds=range(15))
    check_junk(
        b"# leakpath-host 1 {}\nRss: 1 kB\n",
        tmp_path,
        IMPORTER,
        lambda chance: b"Rss: 1" + random.Random(chance.random()).randbytes(60),
    )
