"""What a summary takes from the tables: units, peaks within them, what is kept; against plain replays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import compare_path_reading, compare_reading
from pipeline.compare_reading import summarise
from pipeline.compare_summary import Summary
from schemas.config import Config
from tests.sql.support import Row, tables

SECOND = 1_000_000_000
Life = tuple[int, int | None, int, int]


def allocation(number: int, **facts: Any) -> dict[str, Any]:
    flags = dict.fromkeys(("is_alloc_before_window", "is_free_inferred", "is_size_estimated"), False)
    return {"allocation_id": number, "generation": 0, "alloc_ts_ns": 0, "allocated_bytes": 512} | flags | facts


def epochs(count: int, process: int = 1) -> Iterator[Row]:
    """One a second, each half a second long."""
    for i in range(count):
        yield {
            "process_id": process, "epoch_index": i, "epoch_kind": "request", "epoch_name": str(i),
            "request_id": str(i), "start_ns": i * SECOND, "end_ns": i * SECOND + SECOND // 2,
        }  # fmt: skip


def read(temp: Path, units: int = 1000, **rows: Any) -> Summary:
    database = tables(temp, **rows)
    database.connection.execute(f"SET VARIABLE compare_units = {units}")
    database.connection.execute("SET VARIABLE compare_depth = 120")
    return summarise(database, "c", Config())


@pytest.mark.parametrize("seed", range(3))
def test_peaks_within_epochs(tmp_path: Path, seed: int) -> None:
    """Random lives on two devices: the most that was live at any moment from one epoch's start to the next one's."""
    rng = random.Random(seed)
    lives: list[Life] = []
    for _ in range(120):
        start = rng.randrange(0, 10 * SECOND)
        end = None if rng.random() < 0.2 else start + rng.randrange(1, 3 * SECOND)
        lives.append((start, end, rng.randrange(1, 100), rng.randrange(2)))
    found = read(
        tmp_path,
        allocations=[
            allocation(i, alloc_ts_ns=s, free_ts_ns=e, allocated_bytes=b, device_index=d)
            for i, (s, e, b, d) in enumerate(lives)
        ],
        epochs=list(epochs(10)),
    )
    moments = sorted({s for s, *_ in lives} | {i * SECOND for i in range(10)})

    def live(moment: int, device: int) -> int:
        return sum(b for s, e, b, d in lives if d == device and s <= moment and (e is None or e > moment))

    for i in range(10):
        inside = [t for t in moments if i * SECOND <= t <= (i + 1) * SECOND] if i < 9 else [
            t for t in moments if 9 * SECOND <= t <= 9 * SECOND + SECOND // 2
        ]  # fmt: skip
        assert found.epochs.allocated_peaks[i] == sum(max(live(t, d) for t in inside) for d in range(2))
    assert found.memory.allocated_peak_bytes == sum(max(live(t, d) for t in moments) for d in range(2))
    assert found.epochs.reserved_peaks == [None] * 10
    assert found.memory.reserved_peak_bytes is None


def test_many_epochs_are_grouped_and_nothing_is_lost(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        units=4,
        allocations=[allocation(i, alloc_ts_ns=i * SECOND + 1) for i in range(10)],
        epochs=list(epochs(10)),
        leak_suspects=[_suspect(0, "growing")],
        leak_evidence=[_kept(0, i, i) for i in range(10)],
    ).epochs
    assert (found.sizes, found.count) == ([3, 2, 3, 2], 10)
    assert found.leaked_bytes == [1536, 1024, 1536, 1024]
    assert sum(filter(None, found.durations_ns)) == 10 * SECOND // 2
    assert found.span_ns == 9 * SECOND + SECOND // 2


def _suspect(number: int, verdict: str) -> dict[str, Any]:
    zero = dict.fromkeys(("retained_count", "retained_bytes"), 0)
    return {"suspect_id": number, "verdict": verdict, "verdict_reason": "", **zero}


def _kept(suspect: int, number: int, epoch: int | None) -> dict[str, Any]:
    return {"suspect_id": suspect, "allocation_id": number, "epoch_index": epoch, "allocated_bytes": 512}


def test_what_varies_by_epoch_and_what_does_not(tmp_path: Path) -> None:
    """Growing and unjudged survivors vary; what is kept once or by a limited cache is counted."""
    found = read(
        tmp_path,
        allocations=[allocation(i, alloc_call_path_id=7) for i in range(6)],
        call_paths=[{"call_path_id": 7, "frame_ids": [1], "depth_count": 1}],
        frames=[{"frame_id": 1, "function": "f"}],
        epochs=list(epochs(8)),
        leak_suspects=[_suspect(i, v) for i, v in enumerate(("growing", "bounded", "one_time", "inconclusive"))],
        leak_evidence=[_kept(0, 0, 2), _kept(0, 1, -1), _kept(1, 2, 6), _kept(2, 3, 0), _kept(3, 4, 5)],
    )
    [row] = found.paths
    assert (row.end_bytes, row.end_count, row.leaked_bytes) == (6 * 512, 6, 1024)
    assert (row.kept, row.leaked) == ([(2, 512), (5, 512)], [(2, 512)])
    assert found.epochs.leaked_bytes == [0, 0, 512, 0, 0, 0, 0, 0]
    assert [found.frames[i] for i in row.frames] == ["f"]


def test_ranks_stay_apart_and_processes_of_none_do_not(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        allocations=[allocation(i, process_id=process) for i, process in enumerate((1, 1, 2, 3, 4))],
        processes=[{"process_id": 2, "rank": 0}, {"process_id": 3, "rank": 1}],
        epochs=[*epochs(3, 3), *epochs(2, 2)],
    )
    assert sorted(((row.rank, row.end_count) for row in found.paths), key=str) == [(0, 1), (1, 1), (None, 3)]
    assert found.epochs.count == 5
    assert found.epochs.allocated_peaks == [512] * 5


def test_the_largest_paths_have_rows_and_the_rest_is_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_path_reading, "MAX_PATHS", 3)
    found = read(
        tmp_path,
        allocations=[allocation(i, alloc_call_path_id=i, allocated_bytes=512 * i) for i in range(1, 7)],
        call_paths=[{"call_path_id": i, "frame_ids": [i], "depth_count": 1} for i in range(1, 7)],
        frames=[{"frame_id": i, "function": f"f{i}"} for i in range(1, 7)],
    )
    assert [row.end_bytes // 512 for row in found.paths] == [6, 5, 4]
    [other] = found.others
    assert (other.paths_count, other.end_bytes // 512, other.allocated_count) == (3, 6, 3)


def test_many_requests_are_thinned_and_their_sums_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_reading, "MAX_REQUESTS", 10)
    found = read(
        tmp_path,
        requests=[
            {
                "source": "request_log", "request_id": str(i), "arrival_ns": i * SECOND, "start_ns": i * SECOND,
                "end_ns": i * SECOND + 100 * (i + 1), "status": "200" if i % 2 else "499", "output_tokens": i,
                "prompt_tokens": 2,
            }
            for i in range(37)
        ],
    ).requests  # fmt: skip
    assert (found.count, found.latencies_count, found.prompt_tokens, found.output_tokens) == (37, 37, 74, 666)
    assert len(found.latencies_ns) <= 11 and len(found.gaps_ns) == 10
    assert set(found.latencies_ns) <= {100 * (i + 1) for i in range(37)}
    assert sum(found.gaps_ns) == 36 * SECOND + 3700
    assert (sum(found.whole_counts), sum(found.token_counts)) == (18, 666)


def test_a_capture_without_anything(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.paths, found.epochs.count, found.requests.count, found.leaks.state) == ([], 0, 0, "unknown")
