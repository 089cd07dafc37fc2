"""Real captures on one clock: sources agree, and an hour's error on one file changes no result."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.ingest.torch_reading import CAPTURES
from tests.pipeline.clock_captures import HOUR_NS, copy_small, move

pytestmark = pytest.mark.skipif(not CAPTURES.exists(), reason="the captures are not checked out")
MOVED = ("snapshot.pickle", "cupti.jsonl", "bpftrace.txt", "requests.jsonl", "tokens.csv")


def _results(folder: Path, out: Path) -> dict[str, pl.DataFrame]:
    """Tables of a run; times as distances from the first allocation."""
    ingest(capture_files(folder), folder, out)
    analyze(out, Config())
    tables = {
        name: pl.read_parquet(out / "tables" / f"{name}.parquet")
        for name in ("allocations", "allocation_links", "request_spans", "leak_suspects", "leak_evidence", "findings")
    }
    zero = tables["allocations"]["alloc_ts_ns"].min()
    return {
        name: table.with_columns(pl.col(column) - zero for column in table.columns if column.endswith("_ts_ns"))
        for name, table in tables.items()
    }


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clock") / "expandable"
    copy_small("expandable", folder)
    return folder


@pytest.fixture(scope="module")
def untouched(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    return _results(capture, tmp_path_factory.mktemp("clock_out"))


@pytest.mark.parametrize("by_ns", [HOUR_NS, -HOUR_NS], ids=["later", "earlier"])
@pytest.mark.parametrize("file", MOVED)
def test_an_hour_on_one_file_changes_no_result(
    file: str, by_ns: int, capture: Path, untouched: dict[str, pl.DataFrame], tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(capture, folder)
    if file == "bpftrace.txt":  # monotonic since boot: an hour earlier would be before it
        by_ns = abs(by_ns) if by_ns > 0 else -(10**11)
    move(folder, file, by_ns)
    moved = _results(folder, tmp_path / "out")
    times = [c for c in untouched["allocations"].columns if c.endswith("_ts_ns")]
    rest = pl.exclude(*times)
    assert_frame_equal(moved["allocations"].select(rest), untouched["allocations"].select(rest))
    for column in times:
        apart = (moved["allocations"][column] - untouched["allocations"][column]).abs().max()
        assert apart is None or apart < 1_000_000, column
    links = pl.exclude("time_difference_ns")
    assert_frame_equal(
        moved["allocation_links"].select(links), untouched["allocation_links"].select(links), check_row_order=False
    )
    spans = ("request_id", "status", "process_id", "range_id")
    assert_frame_equal(moved["request_spans"].select(spans), untouched["request_spans"].select(spans))
    for name in ("leak_suspects", "leak_evidence"):
        assert_frame_equal(moved[name], untouched[name], rel_tol=1e-3)
    alignments = pl.read_parquet(tmp_path / "out" / "tables" / "clock_alignments.parquet")
    assert alignments["clock_aligned"].all()
    off = alignments.filter(pl.col("is_disagreement"))
    assert off.height == 1, "the file whose clock is wrong is named"
    assert off["check_difference_ns"].abs()[0] > 9 * 10**10


def _moments(out: Path) -> pl.DataFrame:
    """One row for every (file, process, address, size) that the file shows once."""
    events = pl.read_parquet(out / "tables" / "memory_events.parquet").filter(
        pl.col("level").is_in(["segment", "driver"])
        & pl.col("action").is_in(["alloc", "map"])
        & (pl.col("return_code").fill_null(0) == 0)
        & (pl.col("address") > 0)
    )
    single = events.group_by("source", "process_id", "address", "size_bytes").agg(pl.len(), pl.col("ts_ns").first())
    return single.filter(pl.col("len") == 1)


@pytest.mark.parametrize("name", ["kv_leak", "autograd", "external", "expandable", "frag", "kvblocks"])
def test_sources_agree_on_shared_allocations_within_a_millisecond(name: str, tmp_path: Path) -> None:
    root = CAPTURES / name
    files = [p for p in capture_files(root) if p.name.split(".")[0] in ("snapshot", "cupti", "bpftrace")]
    if name in ("external", "kv_leak", "autograd"):
        copy_small(name, tmp_path / "small")
        root = tmp_path / "small"
        files = capture_files(root)
    ingest(files, root, tmp_path / "out")
    moments = _moments(tmp_path / "out")
    shared = moments.join(moments, on=["process_id", "address", "size_bytes"], suffix="_other")
    shared = shared.filter(pl.col("source") < pl.col("source_other"))
    apart = shared.select("source", "source_other", (pl.col("ts_ns") - pl.col("ts_ns_other")).abs().alias("apart_ns"))
    pairs = apart.group_by("source", "source_other").agg(pl.len(), pl.col("apart_ns").max())
    found = {(a, b): (count, worst) for a, b, count, worst in pairs.rows()}
    assert found, "the sources share allocations"
    for sources, (_, worst) in found.items():
        assert worst < 1_000_000, sources
    assert ("cupti", "torch") in found
