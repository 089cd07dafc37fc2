"""Sums over our tables against what `nsys stats` answers for the same export."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from ingest.nsys_sqlite import IMPORTER
from tests.ingest.support import SHARED, read_into

GOLDEN = SHARED / "corpus" / "golden" / "nsys_stats"
EXPORTS = SHARED / "corpus" / "nsys_sqlite"
REPORTS = sorted(path.relative_to(EXPORTS) for path in EXPORTS.rglob("*.sqlite"))

_TIME = "end_ns - start_ns"
_SPREAD = "sum({0})::HUGEINT, count(*), avg({0}), median({0}), min({0}), max({0}), coalesce(stddev_samp({0}), 0)"
_SIDE = "CASE {} WHEN 'h' THEN 'Host' WHEN 'd' THEN 'Device' WHEN 'p' THEN 'Peer' ELSE 'Array' END"
_LABELS = f"{_SIDE.format('copy_kind[1]')} || '-to-' || {_SIDE.format('copy_kind[-1]')}"
_MEMORY = f"""
    SELECT {{}}, CASE op WHEN 'memset' THEN '[CUDA memset]' WHEN 'migration' THEN
        '[CUDA memcpy Unified ' || {_LABELS} || ']' ELSE '[CUDA memcpy ' || {_LABELS} || ']' END AS operation
    FROM gpu_ops WHERE op IN ('memcpy', 'memset', 'migration') GROUP BY operation"""

# nsys stats prints the name of the domain before the range's, and lets what was not closed end with the last event.
# It tells apart a call's own row and the one of its backtrace, which has the same name.
QUERIES = {
    "cuda_api_sum": f"SELECT {_SPREAD.format(_TIME)}, name FROM api_calls WHERE api <> 'osrt' GROUP BY name",
    "cuda_gpu_kern_sum": f"SELECT {_SPREAD.format(_TIME)}, name FROM gpu_ops WHERE op = 'kernel' GROUP BY name",
    "cuda_gpu_mem_time_sum": _MEMORY.format(_SPREAD.format(_TIME)),
    "cuda_gpu_mem_size_sum": _MEMORY.format(_SPREAD.format("size_bytes")),
    "nvtx_sum": f"""
        SELECT {_SPREAD.format("coalesce(end_ns, last_ns) - start_ns")},
            CASE range_kind WHEN 'push_pop' THEN 'PushPop' ELSE 'StartEnd' END || ' '
            || CASE WHEN domain = '' THEN '' ELSE domain || ':' END || name AS label
        FROM ranges, (SELECT greatest(max(start_ns), max(end_ns)) AS last_ns FROM ranges)
        WHERE range_kind <> 'mark' GROUP BY label""",
}
_VERSION = re.compile(r"_v\d{5,}$")  # nsys stats leaves out versions of four digits only
PRINTED_TO = {"cuda_gpu_mem_size_sum": (1e6, 3)}


def _theirs(path: Path, is_nvtx: bool) -> list[tuple[str, list[str]]]:
    with path.open(encoding="utf-8", newline="") as stream:
        lines = [line for line in csv.reader(stream) if line]
    begin = 0 if lines[0][0].startswith("Total") else 1
    labels = [f"{line[-2]} {line[-1]}" if is_nvtx else _VERSION.sub("", line[-1]) for line in lines[1:]]
    return sorted((label, line[begin : begin + 7]) for label, line in zip(labels, lines[1:], strict=True))


def _nsys_stats_lacks_words(export: Path, query: str, ours: list[tuple[str, list[float]]]) -> bool:
    """Exports before 2023 name no kinds of copies, and `nsys stats` gives up; their sums are SQLite's own then."""
    column = {"cuda_gpu_mem_time_sum": "end - start", "cuda_gpu_mem_size_sum": "bytes"}[query]
    with closing(sqlite3.connect(f"file:{export}?immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
        copies = database.execute(
            f"SELECT sum({column}), count(*), min({column}), max({column}) FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            " GROUP BY copyKind ORDER BY 1"
        ).fetchall()
    found = sorted((line[0], line[1], line[4], line[5]) for label, line in ours if "memset" not in label)
    return "ENUM_CUDA_MEMCPY_OPER" not in tables and found == copies


@pytest.fixture(scope="module", params=REPORTS, ids=lambda path: f"{path.parts[0]}/{path.name}")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("parts")
    read_into(EXPORTS / request.param, folder, IMPORTER)
    return request.param, folder


@pytest.mark.skipif(not GOLDEN.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("query", QUERIES)
def test_sums_equal_those_of_nsys_stats(report: tuple[Path, Path], query: str) -> None:
    name, folder = report
    ours = []
    tables = {path.name for path in folder.iterdir()}
    needed = {"cuda_api_sum": "api_calls", "nvtx_sum": "ranges"}.get(query, "gpu_ops")
    if needed in tables:
        with duckdb.connect(config={"threads": 1}) as database:
            database.execute(f"CREATE VIEW {needed} AS SELECT * FROM read_parquet('{folder / needed / '*.parquet'}')")
            ours = sorted((row[-1], list(row[:-1])) for row in database.execute(QUERIES[query]).fetchall())
    golden = GOLDEN / name / f"{query}.csv"
    if not golden.exists():
        assert ours == [] or _nsys_stats_lacks_words(EXPORTS / name, query, ours), "nsys stats found none"
        return
    theirs = _theirs(golden, query == "nvtx_sum")
    repeated = {label for label, times in Counter(label for label, _ in theirs).items() if times > 1}
    assert [label for label, _ in ours] == sorted({label for label, _ in theirs})
    scale, digits = PRINTED_TO.get(query, (1, 1))
    for label, found in ours:
        said = [line for other, line in theirs if other == label]
        if label in repeated:
            assert found[0] == sum(int(line[0]) for line in said)
            assert found[1] == sum(int(line[1]) for line in said)
            continue
        [line] = said
        for value, text in zip(found, line, strict=True):
            wanted = float(text)
            if "." not in text:
                assert value == int(text), (label, found, line)
            else:
                assert abs(value / scale - wanted) <= 0.5000001 * 10**-digits, (label, found, line)
