"""Who holds the device's memory at each sample (method 6): it adds up, and what can't be true is said to be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.ledger.rows import allocation, device, ledger, parts, process

SCALES = {"device_total", "device_used", "free"}


def test_one_sample_taken_apart(tmp_path: Path) -> None:
    database = ledger(
        tmp_path,
        [*device(100, 1000, free=3000, total=4096), process(100, 850), process(100, 100, pid=2)],
        [
            allocation(1, "tensor", 200, 10),
            allocation(2, "tensor", 100, None),  # from before the window: there from its start
            allocation(3, "tensor", 64, 20, 90),  # gone by then
            allocation(4, "segment", 500, 5, parent_allocation_id=6),
            allocation(5, "driver", 120, 50),
            allocation(6, "driver", 500, 5),  # the segment's own: not counted twice
            allocation(7, "driver", 40, 120),  # not there yet
        ],
    )
    assert parts(database, 100) == {
        (None, "device_total"): 4096,
        (None, "device_used"): 1000,
        (None, "free"): 3000,
        (None, "unattributed"): 50,
        (1, "torch_allocated"): 300,
        (1, "torch_cached"): 200,
        (1, "driver_outside"): 120,
        (1, "context_and_modules"): 230,
        (1, "unattributed"): 0,
        (2, "other_process"): 100,
    }


def test_the_context_is_what_a_process_held_when_it_first_allocated(tmp_path: Path) -> None:
    samples = [(10, 700), (20, 750), (30, 780)]
    database = ledger(
        tmp_path,
        [row for ts, held in samples for row in (*device(ts, 1000), process(ts, held))],
        [allocation(1, "tensor", 100, 5), allocation(2, "segment", 200, 5)],
    )
    found = [parts(database, ts) for ts, _ in samples]
    assert [p[1, "context_and_modules"] for p in found] == [500, 500, 500]
    assert [p[1, "unattributed"] for p in found] == [0, 50, 80]


def test_what_is_not_known_is_null_not_zero(tmp_path: Path) -> None:
    database = ledger(tmp_path, [*device(10, 900), process(10, 800)], [allocation(1, "segment", 200, 5)])
    found = parts(database, 10)
    assert found[1, "driver_outside"] is None
    assert found[None, "device_total"] is None
    assert found[None, "free"] is None
    assert (1, "torch_allocated") not in found


def test_memory_before_the_first_segment_is_unattributed_or_context(tmp_path: Path) -> None:
    database = ledger(
        tmp_path,
        [*device(10, 900), process(10, 400), *device(20, 900), process(20, 600)],
        [allocation(1, "tensor", 100, 15), allocation(2, "segment", 200, 15)],
    )
    assert parts(database, 10)[1, "torch_allocated"] == 0
    assert parts(database, 10)[1, "context_and_modules"] == 400
    assert parts(database, 20)[1, "context_and_modules"] == 400


@pytest.mark.parametrize("seed", range(8))
def test_parts_add_up_to_the_device_at_every_sample(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    metrics, allocations = [], []
    used: dict[tuple[int, int], int] = {}
    for index in range(2):
        for ts in range(100, 2100, 100):
            used[ts, index] = draw.randrange(10_000)
            metrics += device(ts, used[ts, index], free=draw.randrange(10_000), total=12_000, index=index)
            for pid in draw.sample((1, 2, 3), draw.randint(0, 3)):
                metrics.append(process(ts, draw.randrange(6_000), pid=pid, index=index))
    for number in range(60):
        start = draw.choice((None, draw.randrange(2_000)))
        end = draw.choice((None, (start or 0) + draw.randrange(1_000)))
        level = draw.choice(("tensor", "segment", "driver"))
        place = {"process_id": draw.choice((1, 2)), "device_index": draw.randrange(2)}
        kind = draw.choice(("device", "device", "pinned", "static")) if level == "driver" else "device"
        allocations.append(allocation(number, level, draw.randrange(1, 400), start, end, memory_kind=kind, **place))
    database = ledger(tmp_path, metrics, allocations)
    assert {ts for (ts,) in database.rows("SELECT DISTINCT ts_ns FROM memory_ledger_made")} == set(
        range(100, 2100, 100)
    )
    for (ts, index), total in used.items():
        found = parts(database, ts, index)
        assert sum(size or 0 for (_, part), size in found.items() if part not in SCALES) == total, (ts, index)


@pytest.mark.parametrize("seed", range(4))
def test_torch_parts_are_what_lived_at_the_sample(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lives = []
    for _ in range(40):
        start = draw.randrange(1000)
        lives.append((draw.randrange(1, 99), start, draw.choice((None, start + draw.randrange(1, 500)))))
    allocations = [allocation(i, "tensor", size, start, end) for i, (size, start, end) in enumerate(lives)]
    allocations.append(allocation(99, "segment", 9_000, 0))
    samples = range(55, 1600, 100)
    database = ledger(
        tmp_path, [row for ts in samples for row in (*device(ts, 20_000), process(ts, 15_000))], allocations
    )
    for ts in samples:
        live = sum(size for size, start, end in lives if start <= ts and (end is None or end > ts))
        assert parts(database, ts)[1, "torch_allocated"] == live
        assert parts(database, ts)[1, "torch_cached"] == 9_000 - live


@pytest.mark.parametrize(
    ("metrics", "allocations", "part", "words"),
    [
        (device(10, 500, total=400), [], "device_used", "more than the device has"),
        (device(10, 300, free=200, total=400), [], "free", "together are more than the device has"),
        ([*device(10, 300), process(10, 200), process(10, 150, pid=2)], [], "unattributed", "processes hold more"),
        (
            [*device(10, 900), process(10, 800)],
            [allocation(1, "tensor", 300, 5), allocation(2, "segment", 200, 5)],
            "torch_cached",
            "more handed out than reserved",
        ),
        (
            [*device(10, 900), process(10, 100)],
            [allocation(2, "segment", 200, 5)],
            "context_and_modules",
            "less than its allocations",
        ),
    ],
    ids=["used", "free", "processes", "torch", "process"],
)
def test_impossible_counters_are_said_to_be(
    metrics: list[dict[str, object]], allocations: list[dict[str, object]], part: str, words: str, tmp_path: Path
) -> None:
    database = ledger(tmp_path, metrics, allocations)
    flagged = database.rows("SELECT ledger_part, detail FROM memory_ledger_made WHERE is_impossible")
    assert [name for name, _ in flagged] == [part]
    assert words in flagged[0][1]


def test_a_true_sample_is_not_flagged(tmp_path: Path) -> None:
    metrics = [*device(10, 300, free=100, total=400), process(10, 300)]
    database = ledger(tmp_path, metrics, [allocation(1, "segment", 200, 5)])
    assert database.rows("SELECT count(*) FROM memory_ledger_made WHERE is_impossible") == [(0,)]


def test_long_series_keep_their_ends_and_the_peak(tmp_path: Path) -> None:
    metrics = [row for ts in range(1200) for row in device(ts, 9_999 if ts == 777 else 100 + ts % 7)]
    database = ledger(tmp_path, metrics, samples=50)
    kept = {ts for (ts,) in database.rows("SELECT DISTINCT ts_ns FROM memory_ledger_made")}
    assert {0, 777, 1199} <= kept
    assert 50 <= len(kept) <= 53


def test_unaligned_samples_are_left_out(tmp_path: Path) -> None:
    rows = [row | {"clock_aligned": False} for row in device(10, 300)]
    assert ledger(tmp_path, rows).rows("SELECT count(*) FROM memory_ledger_made") == [(0,)]


def test_two_samplers_of_one_device_are_not_mixed(tmp_path: Path) -> None:
    """nvidia-smi counts the driver's reserve in another way than NVML: their moments side by side would be a zigzag."""
    smi = [row | {"source": "nvidia_smi"} for ts in range(5) for row in device(100 * ts + 50, 9_000)]
    nvml = [row for ts in range(4) for row in (*device(100 * ts, 1_000), process(100 * ts, 400))]
    [(lowest, highest, moments)] = ledger(tmp_path, [*smi, *nvml]).rows(
        "SELECT min(part_bytes), max(part_bytes), count(*) FROM memory_ledger_made WHERE ledger_part = 'device_used'"
    )
    assert (lowest, highest, moments) == (1_000, 1_000, 4)
    alone = ledger(tmp_path / "smi", smi).rows(
        "SELECT count(*) FROM memory_ledger_made WHERE ledger_part = 'device_used' AND part_bytes = 9000"
    )
    assert alone == [(5,)]
