"""Nsight Compute pages: the raw and details CSV against the csv module, printed forms of all versions, damage."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.ncu_csv import IMPORTER
from ingest.ncu_values import base_unit
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.text_damage import check_cuts, check_encodings, check_flips, read_text, rows_of

DATA = Path(__file__).parents[1] / "data" / "ncu"
COLUMNS = ("launch_index", "grid", "block", "section", "metric", "value", "unit", "text_value")
FACTORS = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Kbyte/block": 1e3, "us": 1e3, "Ghz": 1e9, "%/Kbyte": 1e3}

OLD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",'
DETAILS = OLD + '"Section Name","Metric Name","Metric Unit","Metric Value"\n'


def detail(metric: str, unit: str, value: str, launch: int = 0) -> str:
    """A row of a details page as of 2020."""
    row = ["GPU Speed Of Light", metric, unit, value]
    place = [str(launch), "77", "/opt/bin/app", "node7", "axpy(float*, int)", "2020-May-29 12:02:46", "1", "7"]
    return ",".join(f'"{text}"' for text in place + row) + "\n"


def plain(path: Path) -> list[list[str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.reader(io.StringIO(text)))


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def expected_raw(path: Path) -> list[tuple[object, ...]]:
    """launch, metric, value in base units, text of every cell that holds something."""
    header, units, *launches = plain(path)
    found: list[tuple[object, ...]] = []
    for cells in launches:
        for name, unit, cell in list(zip(header, units, cells, strict=True))[11:]:
            value = number(cell)
            if cell:
                in_base = None if value is None else pytest.approx(value * FACTORS.get(unit, 1), rel=1e-12)
                found.append((int(cells[0]), name, in_base, cell if value is None else None))
    return found


@pytest.mark.parametrize("name", ["raw.csv", "details.csv", "details.txt"])
def test_real_files(name: str, tmp_path: Path) -> None:
    check_importer(DATA / name, tmp_path, IMPORTER, golden=DATA / "golden" / f"{name}.golden")


def test_raw_page_equals_its_cells(tmp_path: Path) -> None:
    paths = [DATA / "raw.csv"]
    if SHARED.exists():
        paths.append(SHARED / "captures" / "ncu" / "ncu_raw.csv")
    for path in paths:
        tables = ingest_file(path, tmp_path, IMPORTER)
        rows = rows_of(tables, "kernel_metrics", ("launch_index", "metric", "value", "text_value"))
        assert rows == expected_raw(path)
        assert counts_of(tables) == {}
        assert set(tables["kernel_metrics"]["unit"].drop_nulls()) >= {"byte", "ns", "hz", "%", "byte/block"}


def test_details_page_equals_its_rows(tmp_path: Path) -> None:
    paths = [DATA / "details.csv"]
    if SHARED.exists():
        paths.append(SHARED / "captures" / "ncu" / "ncu_details.csv.gz")
        paths.append(SHARED / "corpus" / "ncu_csv" / "brycelelbach+nsightful" / "tests" / "copy_blocked.csv")
    for path in paths:
        rows = rows_of(ingest_file(path, tmp_path, IMPORTER), "kernel_metrics", COLUMNS)
        header, *cells = plain(path)
        assert len(rows) == len(cells)
        for row, cell in zip(rows, cells, strict=True):
            told = dict(zip(header, cell, strict=False))
            assert row[0] == int(told["ID"])
            assert row[1:3] == tuple(told[f"{size} Size"].strip("()").replace(" ", "") for size in ("Grid", "Block"))
            assert row[3] == told["Section Name"]
            if told["Metric Name"]:
                value = number(told["Metric Value"])
                factor = FACTORS.get(told["Metric Unit"], 1)
                assert row[5] == (None if value is None else pytest.approx(value * factor, rel=1e-12))
                assert row[4] == told["Metric Name"]
            else:
                assert row[4] == f"rule:{told['Rule Name']}"
                assert row[5] == number(told["Estimated Speedup"])
                assert row[7] == f"{told['Rule Type']}: {told['Rule Description']}"


def test_text_page(tmp_path: Path) -> None:
    tables = ingest_file(DATA / "details.txt", tmp_path, IMPORTER)
    columns = ("launch_index", "process_id", "device_index", "stream_id", "grid", "metric", "value", "unit")
    first = (0, 4711, 1, 13, "24,2,1")
    second = (1, 4711, None, 7, None)
    assert rows_of(tables, "kernel_metrics", columns) == [
        (*first, "DRAM Frequency", 7.25e9, "hz"),
        (*first, "Elapsed Cycles", 123456.0, "cycle"),
        (*first, "Duration", 88500.0, "ns"),
        (*first, "rule", 12.5, "%"),
        (*first, "rule", None, None),
        (*first, "Block Size", 128.0, None),
        (*first, "Function Cache Configuration", None, None),
        (*first, "Static Shared Memory Per Block", 4100.0, "byte/block"),
        (*second, "SM Frequency", 1.3e9, "hz"),
        (*second, "Duration", 4420.0, "ns"),
    ]
    texts = rows_of(tables, "kernel_metrics", ("name", "text_value"))
    assert texts[3][1] == "OPT: The grid is small. Try a larger one, see the launch statistics."
    assert texts[6][1] == "CachePreferNone"
    assert texts[8][0] == "old_style(float const*)"
    assert tables["processes"].select("process_id", "process_name").rows() == [(4711, "sorter")]
    assert counts_of(tables) == {("missing_values", "info"): 1, ("other_output_lines", "info"): 3}


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
def test_corpus_text_has_the_metrics_of_its_csv(tmp_path: Path) -> None:
    folder = SHARED / "corpus" / "ncu_csv" / "brycelelbach+nsightful"
    found = {}
    for name in ("test_data/copy_blocked.txt", "tests/copy_blocked.csv"):
        rows = rows_of(ingest_file(folder / name, tmp_path, IMPORTER), "kernel_metrics", ("metric", "value", "unit"))
        found[name[-3:]] = [row for row in rows if not str(row[0]).startswith("rule")]
    assert [row[0] for row in found["txt"]] == [row[0] for row in found["csv"]]
    assert [row[2] for row in found["txt"]] == [row[2] for row in found["csv"]]
    launch = {row[0]: row[1] for row in found["txt"]}
    assert (launch["Elapsed Cycles"], launch["Duration"]) == (12196559.0, 20850000.0)


@pytest.mark.parametrize(
    ("printed", "value", "text"),
    [
        ("1,234.5", 1234.5, None),
        ("1.234,5", 1234.5, None),
        ("1\u202f234,5", 1234.5, None),
        ("12'345.25", 12345.25, None),
        ("12,34,567", 1234567.0, None),
        ("-0.5", -0.5, None),
        ("1.5e+06", 1500000.0, None),
        ("7 (1; 2; 4)", 7.0, "(1; 2; 4)"),
        ("1,2,3", None, "1,2,3"),
        ("inf", None, "inf"),
        ("all", None, "all"),
        ("9" * 400, None, "9" * 400),
    ],
)
def test_printed_values(printed: str, value: float | None, text: str | None, tmp_path: Path) -> None:
    tables = read_text(DETAILS + detail("m", "", printed), tmp_path, IMPORTER)
    assert rows_of(tables, "kernel_metrics", ("value", "text_value")) == [(value, text)]


@pytest.mark.parametrize(
    ("unit", "base", "power"),
    [
        ("Gbyte/second", "byte/s", 9),
        ("Kbyte/block", "byte/block", 3),
        ("usecond", "ns", 3),
        ("ms", "ns", 6),
        ("cycle/nsecond", "hz", 9),
        ("Mhz", "hz", 6),
        ("inst/cycle", "inst/cycle", 0),
        ("", None, 0),
    ],
)
def test_units(unit: str, base: str | None, power: int) -> None:
    assert base_unit(unit) == (base, power)


def test_locale_is_that_of_the_file(tmp_path: Path) -> None:
    text = DETAILS + detail("a", "byte", "1.234") + detail("b", "%", "12,5")
    assert rows_of(read_text(text, tmp_path, IMPORTER), "kernel_metrics", ("value",)) == [(1234.0,), (12.5,)]


def test_live_output_around_the_page(tmp_path: Path) -> None:
    """The tool's progress, the program's own lines, a second page in the same file, a description of two lines."""
    rules = DETAILS.replace('"Metric Value"', '"Metric Value","Rule Name","Rule Type","Rule Description"')
    rule = detail("", "", "").rstrip("\n") + ',"Stall","WRN","first line\nsecond line"\n'
    page = "==PROF== Connected to process 77 (/opt/bin/app)\nloss 0.25\n" + rules + detail("a", "ns", "5") + rule
    page += "training done\n==PROF== Disconnected\n" + DETAILS + detail("a", "ns", "6") + detail("a", "ns", "7", 1)
    tables = read_text(page, tmp_path, IMPORTER)
    assert rows_of(tables, "kernel_metrics", ("launch_index", "metric", "value", "text_value")) == [
        (0, "a", 5.0, None),
        (0, "rule:Stall", None, "WRN: first line\nsecond line"),
        (1, "a", 6.0, None),
        (2, "a", 7.0, None),
    ]
    assert tables["processes"].select("process_id", "process_name", "host").rows() == [(77, "app", "node7")]
    assert counts_of(tables) == {("other_output_lines", "info"): 4}


def test_raw_page_of_an_old_version(tmp_path: Path) -> None:
    """No grid and block columns; a second launch that lacks a metric; Windows paths; nothing but the basename kept."""
    names = ["launch__block_dim_x", "launch__block_dim_y", "launch__block_dim_z"]
    names += ["launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z", "gpu__time_duration.sum", "sm__Odd.sum"]
    header = OLD.rstrip(",") + "".join(f',"{name}"' for name in names) + "\n"
    units = '"",' * 8 + '"","","","","","","usecond","inst/cycle"\n'
    place = '"77","C:\\Users\\me\\app.exe","node7","axpy(float*, int)","2020-May-29 12:02:46","1","7"'
    rows = f'"0",{place},"256","1","1","1,056","2","1","12.50","0.5"\n"1",{place},"32","1","1","4","1","1","",""\n'
    tables = read_text(header + units + rows, tmp_path, IMPORTER)
    launches = tables["kernel_metrics"].select("launch_index", "grid", "block").unique(maintain_order=True)
    assert launches.rows() == [(0, "1056,2,1", "256,1,1"), (1, "4,1,1", "32,1,1")]
    metrics = rows_of(tables, "kernel_metrics", ("launch_index", "metric", "value", "unit"))
    assert metrics[6:8] == [(0, "gpu__time_duration.sum", 12500.0, "ns"), (0, "sm__Odd.sum", 0.5, "inst/cycle")]
    assert len(metrics) == 14
    assert tables["processes"].select("process_name", "host").rows() == [("app.exe", "node7")]


def test_damaged_rows_cost_themselves(tmp_path: Path) -> None:
    good = detail("a", "", "1") + detail("b", "", "2", 1)
    bad = '"x","y"\n"0","77","app\n' + detail("c", "", "3").replace('"0"', '""')
    tables = read_text(DETAILS + detail("a", "", "1") + bad + good, tmp_path, IMPORTER)
    assert [row[0] for row in rows_of(tables, "kernel_metrics", ("metric",))] == ["a", "a", "b"]
    assert counts_of(tables)[("damaged_rows", "data_loss")] == 2  # an open quote takes the line below along


def test_page_without_metrics(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no metrics"):
        read_text(DETAILS, tmp_path, IMPORTER)


@pytest.mark.parametrize("name", ["raw.csv", "details.csv"])
def test_cut_and_flipped(name: str, tmp_path: Path) -> None:
    check_encodings(DATA / name, tmp_path, IMPORTER)
    if name == "details.csv":
        check_cuts(DATA / name, tmp_path, IMPORTER, "kernel_metrics", COLUMNS)
        check_flips(DATA / name, tmp_path, IMPORTER, "kernel_metrics", COLUMNS, 1, range(10))
