"""The allocator at the dump: segments and the blocks they are cut into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ingest.sink import Sink
from ingest.torch_frames import FrameLists
from ingest.torch_values import ADDRESS, BYTES, DEVICE, INT64, Limits, integers, is_integer, short_text

_STATES = ("active_allocated", "active_pending_free", "inactive")
_TEXTS = ("segment_type", "pool_id", "is_expandable", "block_state")
_LIMITS: dict[str, tuple[Limits, pa.DataType]] = {
    "address": (ADDRESS, pa.uint64()),
    "segment_address": (ADDRESS, pa.uint64()),
    "device_index": (DEVICE, pa.int32()),
    "call_path_id": (INT64, pa.int64()),
    "stream_id": (INT64, pa.int64()),
    "ts_ns": (INT64, pa.int64()),
}


def _pool(segment: dict[str, Any]) -> str | None:
    pool = segment.get("segment_pool_id")
    if not isinstance(pool, tuple | list) or len(pool) > 8 or not all(is_integer(part, INT64) for part in pool):
        return None
    return ",".join(map(str, pool))


def _blocks_of(segment: dict[str, Any], sink: Sink, paths: FrameLists) -> Iterator[dict[str, Any]]:
    """Rows of one segment's blocks; old layouts give no address: blocks tile the segment in order."""
    address, blocks = segment.get("address"), segment.get("blocks")
    if not isinstance(blocks, list):
        sink.count("blocks_not_a_list", severity="data_loss") if blocks is not None else None
        return
    offset = 0
    for block in blocks:
        if not isinstance(block, dict):
            sink.count("block_not_a_dict", severity="data_loss")
            continue
        size = block.get("size")
        history = block.get("history")
        newest = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}
        if isinstance(history, list) and len(history) > 1:
            sink.count("older_history_entries", len(history) - 1, detail="earlier users of a block, without times")
        state = block.get("state")
        if state == "active_awaiting_free":  # its name up to PyTorch 2.0
            state = "active_pending_free"
        if state not in _STATES:
            sink.count("unknown_block_state", severity="data_loss", detail=short_text(state, 80))
            state = "inactive"
        is_live = state != "inactive"
        placed = address + offset if is_integer(address, ADDRESS) else None
        yield {
            "segment_address": address,
            "address": block.get("address", placed),
            "allocated_bytes": size,
            "requested_bytes": block.get("requested_size", newest.get("real_size")) if is_live else None,
            "block_state": state,
            "call_path_id": paths.of(block.get("frames", newest.get("frames"))) if is_live else None,
        }
        offset += size if is_integer(size, BYTES) else 0


def _once(sink: Sink, segments: list[Any]) -> Iterator[dict[str, Any]]:
    """Segments that are dicts. One that is listed again, or shares its blocks with another, would multiply for free."""
    seen = set[int]()
    for segment in segments:
        if not isinstance(segment, dict):
            sink.count("segment_not_a_dict", severity="data_loss")
            continue
        own = {id(segment), id(segment.get("blocks"))} if segment.get("blocks") is not None else {id(segment)}
        if own & seen:
            sink.count("segment_repeated", severity="data_loss")
            continue
        seen |= own
        yield segment


def write_state(sink: Sink, segments: list[Any], paths: FrameLists, dumped_ns: int | None) -> None:
    """Write `segments` and `blocks`; `dumped_ns` is the time of the last event, on the snapshot's clock."""
    segment_rows: list[dict[str, Any]] = []
    block_rows: list[dict[str, Any]] = []
    for segment in _once(sink, segments):
        shared = {
            "device_index": segment.get("device", 0),
            "stream_id": segment.get("stream"),
            "pool_id": _pool(segment),
        }
        kind = segment.get("segment_type")
        segment_rows.append(
            shared
            | {
                "ts_ns": dumped_ns,
                "address": segment.get("address"),
                "total_bytes": segment.get("total_size"),
                "allocated_bytes": segment.get("allocated_size"),
                "active_bytes": segment.get("active_size"),
                "requested_bytes": segment.get("requested_size"),
                "segment_type": short_text(kind) if isinstance(kind, str) else None,
                "is_expandable": bool(segment.get("is_expandable", False)),
                "call_path_id": paths.of(segment.get("frames")),
            }
        )
        block_rows += [shared | row for row in _blocks_of(segment, sink, paths)]
    for table, rows in (("segments", segment_rows), ("blocks", block_rows)):
        if rows:
            sink.write(table, {name: _typed(sink, name, [row[name] for row in rows]) for name in rows[0]}, dump_index=0)


def _typed(sink: Sink, name: str, values: list[Any]) -> list[Any] | pa.Array:
    return values if name in _TEXTS else integers(sink, values, *_LIMITS.get(name, (BYTES, pa.int64())))
