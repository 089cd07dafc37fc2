"""Nsight Compute reports: every metric against the CSV that the tool itself prints of the same report, and damage."""

from __future__ import annotations

import contextlib
import gzip
import random
import stat
import struct
from pathlib import Path

import polars as pl
import pytest

from ingest.errors import BadInput, UnsupportedVersion
from ingest.ncu_csv import IMPORTER as CSV
from ingest.ncu_report import IMPORTER
from ingest.ncu_values import base_unit
from ingest.protobuf_wire import fields
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.test_ncu_csv import plain
from tests.ingest.text_damage import read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "ncu"
REPORT = gzip.decompress((DATA / "two.ncu-rep.gz").read_bytes())
LAUNCH = ("process_id", "device_index", "context_id", "stream_id", "grid", "block")


def metrics_of(report: dict[str, pl.DataFrame], page: Path) -> int:
    """Compare a report's metrics with the cells of its raw page; how many there are."""
    rows = rows_of(report, "kernel_metrics", ("launch_index", "metric", "value", "unit", "text_value"))
    found = {(row[0], row[1]): row[2:] for row in rows if not str(row[1]).startswith("rule:")}
    header, units, *launches = plain(page)
    expected = 0
    for place, cells in enumerate(launches):
        for name, unit, cell in list(zip(header, units, cells, strict=True))[11:]:
            if not cell:
                assert (place, name) not in found
                continue
            value, stored_unit, text = found[(place, name)]
            expected += 1
            base, power = base_unit(unit)
            assert stored_unit in (base, None), name
            if text is not None:
                assert text == cell
                continue
            digits = len(cell.partition(".")[2])
            printed = float(cell.replace(",", "")) * 10**power
            assert abs(float(value) - printed) <= 0.5000001 * 10 ** (power - digits) + 1e-12 * abs(printed), name
    assert len(found) == expected
    return expected


def test_real_file(tmp_path: Path) -> None:
    golden = DATA / "golden" / "two.ncu-rep.golden"
    report = check_importer(DATA / "two.ncu-rep.gz", tmp_path, IMPORTER, golden=golden)
    assert metrics_of(report, DATA / "raw.csv") == 1108
    page = ingest_file(DATA / "raw.csv", tmp_path, CSV)
    launches = [frame["kernel_metrics"].select(LAUNCH).unique(maintain_order=True) for frame in (report, page)]
    assert launches[0].equals(launches[1])
    assert report["processes"].drop("file_id").equals(page["processes"].drop("file_id"))
    units = report["kernel_metrics"].filter(pl.col("metric").str.ends_with("pct_of_peak_sustained_elapsed"))["unit"]
    assert set(units) == {"%"}


def test_rules_are_those_of_the_details_page(tmp_path: Path) -> None:
    columns = ("section", "metric", "value", "text_value")
    report = rows_of(ingest_file(DATA / "two.ncu-rep.gz", tmp_path, IMPORTER), "kernel_metrics", columns)
    page = rows_of(ingest_file(DATA / "details.csv", tmp_path, CSV), "kernel_metrics", columns)
    rules = [
        sorted(
            (*row[:2], str(row[3])[:40], row[2] and float(f"{row[2]:.4g}")) for row in rows if "rule:" in str(row[1])
        )
        for rows in (report, page)
    ]
    assert len(rules[0]) == 12
    assert rules[0] == rules[1]


@pytest.mark.skipif(not SHARED.exists(), reason="the full captures are not beside the checkout")
def test_every_metric_of_the_capture(tmp_path: Path) -> None:
    folder = SHARED / "captures" / "ncu"
    assert metrics_of(ingest_file(folder / "ncu.ncu-rep.gz", tmp_path, IMPORTER), folder / "ncu_raw.csv") == 6648


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
def test_report_of_an_older_version(tmp_path: Path) -> None:
    path = SHARED / "corpus" / "ncu_rep" / "ayush-os+nsight-deep-dive" / "ncu-files" / "a100_vectoradd.ncu-rep"
    tables = ingest_file(path, tmp_path, IMPORTER)
    rows = tables["kernel_metrics"].filter(pl.col("launch_index") == 0)
    values = dict(rows.select("metric", "value").rows())
    assert tables["kernel_metrics"]["launch_index"].unique().to_list() == [0, 1]
    assert rows["name"][0] == "vectorAdd(const float *, const float *, float *, int)"
    assert (rows["grid"][0], rows["block"][0]) == ("262144,1,1", "256,1,1")
    assert values["launch__grid_size"] * values["launch__block_size"] == values["launch__thread_count"] == 67108864.0
    assert rows.filter(pl.col("metric") == "device__attribute_display_name")["text_value"][0].startswith("NVIDIA A100")


def test_cuts_give_whole_launches_or_one_error(tmp_path: Path) -> None:
    whole = ingest_file(DATA / "two.ncu-rep.gz", tmp_path, IMPORTER)["kernel_metrics"]
    seen = set()
    for end in [*range(0, len(REPORT), len(REPORT) // 12), len(REPORT) - 1]:
        try:
            tables = read_text(REPORT[:end], tmp_path, IMPORTER)
        except (AssertionError, BadInput):
            seen.add(0)
            continue
        rows = tables["kernel_metrics"]
        assert rows.equals(whole.head(rows.height))
        assert counts_of(tables)[("truncated_report", "data_loss")] == 1
        seen.add(rows["launch_index"].n_unique())
    assert seen == {0, 1}


def test_flipped_bytes(tmp_path: Path) -> None:
    chance = random.Random(3)
    for _ in range(60):
        data = bytearray(REPORT)
        for _ in range(chance.choice((1, 5, 200))):
            data[chance.randrange(8, len(data))] ^= chance.randrange(1, 256)
        with contextlib.suppress(BadInput):
            read_text(bytes(data), tmp_path, IMPORTER)


def test_lengths_that_lie_are_not_believed(tmp_path: Path) -> None:
    for lie in (0xFFFFFFFF, 1 << 30, 0):
        with pytest.raises((BadInput, AssertionError)):
            read_text(REPORT[:4] + struct.pack("<I", lie) + REPORT[8:], tmp_path, IMPORTER)
        with pytest.raises(BadInput):
            read_text(REPORT[:10] + struct.pack("<I", lie) + REPORT[14:], tmp_path, IMPORTER)
    for message in (b"\x80" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x09\x00"):
        with pytest.raises(ValueError, match=r"\w"):
            list(fields(message))


VERSION_9 = b"NVR\0" + struct.pack("<I", 2) + b"\x08\x09" + b"\0" * 40


def test_another_version_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedVersion, match=r"version 9, supported: 7; run `ncu --import .* --page raw --csv"):
        read_text(VERSION_9, tmp_path, IMPORTER)


def test_another_version_goes_through_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool gets the unpacked report and its page is read; a tool that fails is one line."""
    tool = tmp_path / "bin" / "ncu"
    tool.parent.mkdir()
    page = (DATA / "raw.csv").absolute()
    tool.write_text(f'#!/bin/sh\n/usr/bin/cmp -n 4 "$2" "{page}" && exit 3\n[ "$4" = raw ] && exec /bin/cat "{page}"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    tables = read_text(gzip.compress(VERSION_9), tmp_path, IMPORTER)
    assert tables["kernel_metrics"].equals(ingest_file(DATA / "raw.csv", tmp_path, CSV)["kernel_metrics"])
    tool.write_text("#!/bin/sh\necho no such device >&2\nexit 1\n")
    with pytest.raises(BadInput, match="no such device"):
        read_text(VERSION_9, tmp_path, IMPORTER)
