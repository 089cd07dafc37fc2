"""`graph_pool`: private pools of the caching allocator that grow with each shape a CUDA graph is captured for.

Ids of pools (`MemPool::graph_pool_handle` of c10/cuda): (n, 0) are made by a capture, (0, n) by a handle.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.causes.rows import Checked, process_text
from pipeline.database import Database
from pipeline.leaks.causes import Evidence
from pipeline.leaks.frame_rules import FrameReader
from pipeline.leaks.paths import CallPathReader
from pipeline.leaks.tensor_causes import GRAPH_ADVICE, GRAPH_MEASURE
from pipeline.wording import bytes_text, evidence_text
from schemas.config import RootCauseSettings

LATE_SHARE = 0.2
MIN_STEPS = 4


class _Pools(NamedTuple):
    """Private pools of a process on a device: one row of `private_pools`, bytes and counts."""

    process_id: int
    device_index: int
    pools: int
    late_pools: int
    capture_pools: int
    segments: int
    reserved: int
    late: int
    steps: int
    untimed: int
    live: int
    epochs: int
    graphs: int | None

    @property
    def grows(self) -> bool:
        """Whether segments come at many moments, and a good part of them late."""
        return self.steps >= MIN_STEPS and self.late >= LATE_SHARE * self.reserved


def _captured(database: Database, pools: _Pools, paths: CallPathReader) -> float:
    """Share of the private segments' bytes that were taken while a graph was captured, by the frames."""
    frames, below = FrameReader(), 0
    for path, held in database.rows(
        "SELECT alloc_call_path_id, sum(allocated_bytes)::BIGINT FROM allocations WHERE level = 'segment'"
        " AND free_ts_ns IS NULL AND pool_id <> '0,0' AND process_id = ? AND device_index = ?"
        " AND alloc_call_path_id IS NOT NULL GROUP BY ALL",
        [pools.process_id, pools.device_index],
    ):
        below += held if frames.has(paths.frames(path), "graph_capture") else 0
    return below / pools.reserved


def _evidence(pools: _Pools, captured: float) -> Evidence:
    found = Evidence()
    found.add(
        True,
        f"{pools.pools} private pools hold {bytes_text(pools.reserved)} in {pools.segments} segments, taken at"
        f" {pools.steps} moments",
        "",
    )
    when = "the later half of the recording" if pools.epochs < MIN_STEPS else "the later half of what repeats"
    found.add(True, f"{bytes_text(pools.late)} of it, and {pools.late_pools} of the pools, came in {when}", "")
    found.add(
        captured >= 0.5,
        f"{captured:.0%} of it was taken while a CUDA graph was captured",
        f"only {captured:.0%} of it has a frame of a CUDA graph's capture",
    )
    found.add(
        pools.capture_pools > 0,
        f"{pools.capture_pools} of the pools were made by a capture of their own: graphs do not share one",
        "all pools were made by a handle: torch.cuda.MemPool makes such without any graph",
    )
    if pools.graphs is not None:
        found.add(
            pools.graphs >= MIN_STEPS,
            f"{pools.graphs} graphs were instantiated",
            f"{pools.graphs} graphs only were instantiated",
        )
    found.add(pools.epochs >= MIN_STEPS, "", "nothing repeats in the recording: these may be the captures of a start")
    return found


def check_graph_pools(database: Database, settings: RootCauseSettings, paths: CallPathReader) -> Checked:
    """Private pools that grow, a process and device."""
    database.run("causes", "private_pools")
    checked = Checked("graph_pool", next_measurement=GRAPH_MEASURE)
    [(segments, known)] = database.rows(
        "SELECT count(*), count(pool_id) FROM allocations WHERE level = 'segment' AND free_ts_ns IS NULL"
    )
    if not known:
        checked.abstained_reason = (
            "the snapshot names no pools: take it with a newer PyTorch"
            if segments
            else "no memory snapshot says which pool a segment belongs to"
        )
        return checked
    rows = [_Pools(*row) for row in database.rows("SELECT * FROM private_pools ORDER BY reserved_bytes DESC, 1, 2")]
    if not rows:
        checked.reason = "no segment lies in a private pool"
    for pools in rows:
        place = f"process_id = {pools.process_id} AND device_index = {pools.device_index}"
        if pools.reserved < settings.graph_pool_min_bytes or not pools.grows:
            checked.reason = checked.reason or _why_not(pools, settings)
            continue
        cause = _evidence(pools, _captured(database, pools, paths)).cause("graph_pool", GRAPH_ADVICE, GRAPH_MEASURE)
        title = (
            f"CUDA graph pools keep growing: {bytes_text(pools.reserved)} in {pools.pools} private pools of"
            f" {process_text(pools.process_id)}, {bytes_text(pools.late)} of it taken late"
        )
        evidence = evidence_text(("segments", f"pool_id <> '0,0' AND {place}"))
        checked.add(cause, (pools.process_id, pools.device_index), pools.reserved, title, evidence)
    return checked


def _why_not(pools: _Pools, settings: RootCauseSettings) -> str:
    what = f"{pools.pools} private pool{'s' if pools.pools != 1 else ''} hold {bytes_text(pools.reserved)}"
    if pools.reserved < settings.graph_pool_min_bytes:
        return f"{what}, less than {bytes_text(settings.graph_pool_min_bytes)}"
    if pools.untimed > pools.reserved / 2:
        return f"{what}, most of it from before the recorded window"
    return (
        f"{what}, and do not grow: {bytes_text(pools.late)} of it came in the later half, as for a fixed set of shapes"
    )
