"""`delayed_free`: blocks that were given back and can't be used again before another stream has caught up."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.causes.rows import Checked, process_text
from pipeline.database import Database
from pipeline.leaks.causes import Evidence
from pipeline.leaks.paths import CallPathReader
from pipeline.wording import LIBRARY_FRAME, bytes_text, evidence_text, seconds_text
from schemas.config import RootCauseSettings

LONG_WAIT_NS = 10_000_000
_ADVICE = (
    "Synchronise the side stream before the last reference goes (stream.wait_stream), keep a reference until it has"
    " caught up instead of tensor.record_stream, or bound how many such tensors are in flight."
)
_MEASURE = "Trace the streams (CUPTI or Nsight Systems) around the highest point, to see which one is behind."


def _blocks(count: int) -> str:
    """So many blocks."""
    return f"{count:,} block{'s' if count != 1 else ''}"


class _Waits(NamedTuple):
    """Waiting blocks of a process on a device: one row of `pending_frees`. Bytes, nanoseconds."""

    process_id: int
    device_index: int
    peak: int
    peak_ns: int
    active: int
    waits: int
    median_ns: int
    longest_ns: int
    waiting: int
    waiting_bytes: int
    call_path_id: int | None
    taken: int
    taken_bytes: int


def _evidence(waits: _Waits, paths: CallPathReader) -> Evidence:
    found = Evidence()
    found.add(
        True,
        f"{bytes_text(waits.peak)} waited at the highest point, {waits.peak / waits.active:.0%} of what was not free",
        "",
    )
    typical, longest = seconds_text(waits.median_ns / 1e9), seconds_text(waits.longest_ns / 1e9)
    found.add(
        waits.median_ns >= LONG_WAIT_NS,
        f"{_blocks(waits.waits)} waited, half of them {typical} or more, the longest {longest}",
        f"half of {_blocks(waits.waits)} waited {typical} or less: copies overlap as they should",
    )
    found.add(
        waits.taken > 0,
        f"meanwhile the allocator took {bytes_text(waits.taken_bytes)} from the driver in {waits.taken} segments that"
        " the waiting blocks were as large as",
        "the allocator took nothing from the driver meanwhile that the waiting blocks could have been",
    )
    found.add(
        waits.waiting > 0,
        f"{_blocks(waits.waiting)}, {bytes_text(waits.waiting_bytes)}, not back at the end",
        "all of them had come back by the end",
    )
    own = [
        frame.text()
        for frame in (paths.frames(waits.call_path_id) if waits.call_path_id is not None else ())
        if not LIBRARY_FRAME.search(frame.text())
    ]
    if own:
        found.add(True, f"the largest was allocated by {own[-1]}", "")
    return found


def check_delayed_frees(database: Database, settings: RootCauseSettings, paths: CallPathReader) -> Checked:
    """Bytes that wait for a stream, a process and device, where they are many and much of what is in use."""
    checked = Checked("delayed_free", next_measurement=_MEASURE)
    [(requests,)] = database.rows(
        "SELECT count(*) FROM (SELECT 1 FROM allocations WHERE free_requested_ts_ns IS NOT NULL LIMIT 1)"
    )
    if not requests:
        checked.abstained_reason = "no history tells when blocks were given back (free_requested of a memory snapshot)"
        return checked
    database.run("causes", "pending_frees")
    rows = [_Waits(*row) for row in database.rows("SELECT * FROM pending_frees ORDER BY peak_bytes DESC, 1, 2")]
    if not rows:
        checked.reason = "every free completed within a millisecond"
    for waits in rows:
        share = waits.peak / waits.active if waits.active else 0.0
        if waits.peak < settings.delayed_free_min_bytes or share < settings.delayed_free_min_ratio:
            checked.reason = checked.reason or (
                f"at most {bytes_text(waits.peak)} waited for a stream, {share:.0%} of what was not free"
            )
            continue
        cause = _evidence(waits, paths).cause("delayed_free", _ADVICE, _MEASURE)
        title = (
            f"Frees are held back across streams: {bytes_text(waits.peak)} of {process_text(waits.process_id)} waited"
            f" at once, {share:.0%} of what was not free"
        )
        place = f"process_id = {waits.process_id} AND device_index = {waits.device_index}"
        evidence = evidence_text(
            ("fragmentation", f"pending_free_bytes > 0 AND {place}"),
            ("allocations", f"level = 'tensor' AND free_ts_ns - free_requested_ts_ns >= 1000000 AND {place}"),
        )
        checked.add(cause, (waits.process_id, waits.device_index), waits.peak, title, evidence)
    return checked
