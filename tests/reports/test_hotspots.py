"""Where time goes, as the page shows it: bounded, sums kept, escaped, and what is missing said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports.models.hotspots import MAX_GROUPS, Hotspots, read_hotspots
from reports.models.report import read_report
from reports.render import render_html
from reports.source import CaptureTables
from tests.reports.builders import write_tables

Row = dict[str, Any]
PLACE = {"process_id": 7, "device_index": 0, "unit": "ns"}


def _read(folder: Path, rows: list[Row], **more: list[Row]) -> tuple[Hotspots, str]:
    numbered = [{"hotspot_id": number} | row for number, row in enumerate(rows)]
    with CaptureTables(write_tables(folder, {"hotspots": numbered} | more)) as tables:
        page = render_html(read_report(tables), "1", ())
        return read_hotspots(tables), page[page.index('<section id="hotspots"') :]


def test_shares_are_a_bar_and_a_table_that_sum_to_all(tmp_path: Path) -> None:
    shares = [("matmul", 60, False), ("rotary", 25, False), ("other", 15, True)]
    rows = [
        PLACE
        | {"hotspot_kind": "gpu_share", "name": name, "self_amount": ns, "self_ratio": ns / 100, "call_count": 2}
        | {"is_other": other, "detail": "by names of operations alone" if other else None}
        for name, ns, other in shares
    ]
    hot, page = _read(tmp_path, rows)
    [group] = hot.groups
    assert group.title == "What process 7, device 0 worked on"
    assert [(spot.label, spot.own, spot.x, spot.width) for spot in group.rows] == [
        ("matrix products and convolutions", "60 ns", 0.0, 528.0),
        ("rotary embedding", "25 ns", 528.0, 220.0),
        ("other", "15 ns", 748.0, 132.0),
    ]
    assert "Shares are <bdi>by names of operations alone</bdi>" in page
    assert page.count('<rect class="work') == 3


@pytest.mark.parametrize("kind", ["gpu_kernel", "gpu_function", "cpu_function", "gpu_range"])
def test_what_is_not_shown_is_one_row_that_still_sums(tmp_path: Path, kind: str) -> None:
    rows = [
        PLACE
        | {"hotspot_kind": kind, "name": f"f{n}", "range_path": f"r{n}", "hotspot_event": "cycles", "is_other": False}
        | {"self_amount": 100 - n, "total_amount": 100 + n if "function" in kind else None, "call_count": 1}
        | {"self_ratio": (100 - n) / 3225, "total_ratio": (100 + n) / 3225, "process_id": process}
        for process in range(MAX_GROUPS + 2)
        for n in range(40)
    ]
    hot, page = _read(tmp_path, rows)
    assert (len(hot.groups), hot.groups_left_out) == (MAX_GROUPS, 2)
    for group in hot.groups:
        assert len(group.rows) <= 13
        assert group.rows[-1].label is None
        whole = sum(100 - n for n in range(40))
        shown = sum(int(spot.own.split()[0]) for spot in group.rows if "ns" in spot.own and "µs" not in spot.own)
        assert shown <= whole
        assert group.rows[-1].own_ratio == pytest.approx(
            1 - sum(int(spot.own.split()[0]) for spot in group.rows[:-1]) / whole
        )
        assert sum(spot.count or 0 for spot in group.rows) == 40
    assert "2 more groups" in page


def test_profiled_kernels_with_their_place_and_suspect(tmp_path: Path) -> None:
    row = PLACE | {"hotspot_kind": "profiled_kernel", "name": "gemm<script>", "self_amount": 1500, "is_other": False}
    row |= {"compute_ratio": 0.31, "memory_ratio": None, "occupancy_ratio": 0.5, "suspect_id": 0, "call_path_id": 1}
    row |= {"range_path": "decode", "call_count": 2, "detail": "runs below f (a.py), which keeps the memory"}
    frames = [{"frame_id": 5, "function": "step", "file": "/srv/a.py", "line": 3}]
    paths = [{"call_path_id": 1, "frame_ids": [5], "depth_count": 1}]
    hot, page = _read(tmp_path, [row], frames=frames, call_paths=paths)
    [kernel] = hot.profiled
    assert (kernel.where, kernel.time, kernel.suspect_id) == ("decode > step (a.py:3)", "1.5 µs", 0)
    assert "gemm&lt;script&gt;" in page
    assert "suspect 0" in page
    assert "gemm<script>" not in page


def test_rises_and_rounding_and_what_is_missing(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"hotspot_kind": "recomputation", "process_id": 7, "name": "aten::cos", "calls_per_token_early": 4.5}
        | {"calls_per_token_late": 17.5, "rise_p_value": 1e-9, "self_amount": 9, "is_other": False},
        *(
            PLACE
            | {
                "hotspot_kind": "rounding",
                "unit": "bytes",
                "self_amount": 1000 - n,
                "total_amount": 5000,
                "call_count": 1,
            }
            | {"is_other": n == 30}
            for n in range(31)
        ),
        {"hotspot_kind": "cpu_path", "abstained_reason": "no stack samples", "is_other": False},
    ]
    hot, page = _read(tmp_path, rows)
    assert [(rise.name, rise.early, rise.late) for rise in hot.rises] == [("aten::cos", 4.5, 17.5)]
    assert sum(row.lost_bytes or 0 for row in hot.rounding) == sum(1000 - n for n in range(31))
    assert (hot.rounding[0].where, hot.rounding[-1].where) == ("no call path", None)
    assert hot.missing == (("Time on the processors", "no stack samples"),)
    assert "Time on the processors: not known, <bdi>no stack samples</bdi>." in page
    assert "p &lt; 0.001" in page


def test_no_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    with CaptureTables(tmp_path) as tables:
        page = render_html(read_report(tables), "1", ())
    assert "table <code>hotspots</code> is absent" in page
