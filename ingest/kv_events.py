"""KV block events, one JSON object a line: who took, shared, gave back and wrote a block of a paged KV cache.

`timestamp_ns, seq, event, block_id, request_id, refcount, thread, bytes, address`, events alloc, incref, decref, free,
write, read, request_start, request_end. Prefix-cache events of vLLM (BlockStored, BlockRemoved, AllBlocksCleared,
https://docs.vllm.ai/en/latest/api/vllm/distributed/kv_events/), alone or as the `events` of a batch with `ts`, objects
or arrays, give one row a block hash. Token ids are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.callpaths import clean_text, stable_id
from ingest.json_values import attributes_text, parse_json
from ingest.numbers import INT64_MAX, UINT64_MAX, NumberReader, to_integer
from ingest.registry import Importer
from ingest.request_fields import key_of, time_ns
from ingest.rowbatch import RowBatch
from ingest.sink import Sink
from ingest.textlines import head_lines, open_lines

_SNIFFED_LINES = 20
_ROW = (
    "kv_event", "ts_ns", "sequence_number", "process_id", "thread_id", "block_id", "request_id", "reference_count",
    "size_bytes", "address", "attributes",
)  # fmt: skip
_KEYS = {
    "event": ("event", "kv_event", "event_type", "action", "op", "type"),
    "block_id": ("block_id", "block", "block_index", "block_idx", "page_id", "page", "block_hashes", "block_hash"),
    "request_id": ("request_id", "req_id", "rid", "sequence_id", "seq_id"),
    "sequence_number": ("seq", "sequence_number", "sequence", "seq_no", "event_id"),
    "reference_count": ("refcount", "ref_count", "ref_cnt", "refs", "reference_count"),
    "thread_id": ("thread", "thread_id", "tid"),
    "process_id": ("pid", "process_id"),
    "size_bytes": ("bytes", "size_bytes", "nbytes", "block_bytes", "size"),
    "address": ("address", "addr", "ptr", "data_ptr"),
}
_TIME_KEYS = {"timestamp_ns": 1, "ts_ns": 1, "time_ns": 1, "timestamp_us": 1000, "ts_us": 1000,
              "timestamp_ms": 10**6, "ts_ms": 10**6, "timestamp": None, "ts": None, "time": None}  # fmt: skip
_COLUMN = {key: (column, rank) for column, keys in _KEYS.items() for rank, key in enumerate(keys)}
_EVENTS = {
    "alloc": ("alloc", "allocate", "allocated", "block_alloc", "bind", "acquire", "block_stored", "stored"),
    "free": ("free", "freed", "release", "released", "block_free", "evict", "evicted", "block_removed", "removed"),
    "ref": ("ref", "incref", "inc_ref", "touch", "share", "fork", "retain"),
    "unref": ("unref", "decref", "dec_ref", "deref"),
    "write": ("write", "append", "store", "kv_write"),
    "read": ("read", "load", "access", "kv_read"),
    "request_start": ("request_start", "request_begin", "request_started", "request_arrived", "request_added"),
    "request_end": ("request_end", "request_finish", "request_finished", "request_ended", "request_done"),
}
_KNOWN = {name: event for event, names in _EVENTS.items() for name in names}
_ENDED_OTHERWISE = frozenset(("request_abort", "request_aborted", "request_cancel", "request_cancelled"))
_UNREAD = frozenset(("token_ids", "tokens", "prompt", "prompt_token_ids", "text", "extra_keys"))
_ARRAYS = {
    "BlockStored": ("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
    "BlockRemoved": ("type", "block_hashes", "medium"),
    "AllBlocksCleared": ("type",),
}
"""Places of the values in vLLM's events as arrays, as msgspec writes them."""


def sniff(head: bytes, path: Path) -> bool:
    """One of the first lines is an object that names a block and one of the events, or a batch of such."""
    for line in head_lines(head)[:_SNIFFED_LINES]:
        try:
            found = parse_json(line)
        except ValueError:
            continue
        if any(_is_event(record) for record, _ in _records(found)):
            return True
    return False


def _records(found: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Events in one line's value, each with what its batch says of all of them."""
    if isinstance(found, list) and len(found) > 1 and isinstance(found[1], list):
        found = dict(zip(("ts", "events", "data_parallel_rank"), found, strict=False))
    if not isinstance(found, dict):
        return
    events = found.get("events")
    if not isinstance(events, list):
        yield found, {}
        return
    common = {key: value for key, value in found.items() if key != "events"}
    for event in events:
        if isinstance(event, list) and event and isinstance(event[0], str) and event[0] in _ARRAYS:
            yield dict(zip(_ARRAYS[event[0]], event, strict=False)), common
        elif isinstance(event, dict):
            yield event, common


def _is_event(record: dict[str, Any]) -> bool:
    columns = {_COLUMN[key][0] for name in record if (key := key_of(name)) in _COLUMN}
    name = next((record[key] for key in record if key_of(key) in _KEYS["event"]), None)
    has_block = "block_id" in columns and isinstance(name, str) and key_of(name) in _KNOWN
    return has_block or name == "AllBlocksCleared"


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._numbers = NumberReader(sink)
        self._batch = RowBatch(sink, "kv_block_events", _ROW)

    def line(self, text: str, line: int) -> None:
        """Write the events of one line; a line without one is counted."""
        try:
            found = parse_json(text)
        except ValueError as error:
            detail = f"{str(error)[:120]}, first at line {line}"
            self._sink.count("damaged_rows", severity="data_loss", detail=detail)
            return
        is_empty = True
        for record, common in _records(found):
            is_empty = not self._event({**common, **record}, line) and is_empty
        if is_empty:
            self._sink.count("lines_without_event", severity="data_loss", detail=f"first at line {line}")

    def close(self) -> None:
        self._batch.flush()
        self._numbers.settle_clock()

    def _event(self, record: dict[str, Any], line: int) -> bool:
        values: dict[str, tuple[int, str, Any]] = {}
        rest: dict[str, Any] = {}
        times: list[tuple[int | None, Any]] = []
        for name, value in record.items():
            key = key_of(name)
            if key in _TIME_KEYS:
                times.append((_TIME_KEYS[key], value))
            elif key in _UNREAD:
                self._sink.count("contents_left_out", detail=f"{key}, first at line {line}")
                continue
            column, rank = _COLUMN.get(key, ("", 0))
            is_plain = not isinstance(value, dict) and (not isinstance(value, list) or column == "block_id")
            if column and is_plain and (column not in values or values[column][0] > rank):
                if column in values:
                    rest[values[column][1]] = values[column][2]
                values[column] = (rank, name, value)
            elif key not in _TIME_KEYS:
                rest[name] = value
        name = values.pop("event", (0, "", None))[2]
        if not isinstance(name, str):
            return False
        event = _KNOWN.get(key_of(name), "other")
        if key_of(name) in _ENDED_OTHERWISE:
            event = "request_end"
        if event == "other" or key_of(name) in _ENDED_OTHERWISE:
            rest["event"] = name
        ts_ns = self._time(times, line)
        blocks = values.pop("block_id", (0, "", None))[2]
        cells = {column: self._cell(column, given, line, rest) for column, (_, _, given) in values.items()}
        for block in blocks if isinstance(blocks, list) and blocks else [blocks]:
            number = self._block(block, rest)
            self._batch.add(
                event, ts_ns, cells.get("sequence_number"), cells.get("process_id"), cells.get("thread_id"), number,
                cells.get("request_id"), cells.get("reference_count"), cells.get("size_bytes"), cells.get("address"),
                attributes_text(rest, self._sink, f"line {line}"),
            )  # fmt: skip
        return True

    def _time(self, times: list[tuple[int | None, Any]], line: int) -> int | None:
        for unit, value in times[-1:]:
            try:
                ns, is_utc = time_ns(value, unit)
            except (ValueError, OverflowError) as error:
                detail = f"{str(error)[:120]}, first at line {line}"
                self._sink.count("damaged_times", severity="data_loss", detail=detail)
                return None
            if not is_utc:
                self._sink.count("local_times", detail="times without a zone")
                self._sink.clock = "unknown"
            self._numbers.saw_time(ns)
            return ns
        self._sink.count("events_without_time", severity="data_loss", detail=f"first at line {line}")
        return None

    def _block(self, block: Any, rest: dict[str, Any]) -> int | None:
        """Number of a block; a hash beyond 63 bits or in text is numbered by its text, which `block_hash` keeps."""
        rest.pop("block_hash", None)
        if isinstance(block, bool) or not isinstance(block, int | str):
            lost = 0 if block is None else 1
            self._sink.count("damaged_values", lost, severity="data_loss", detail="block_id: neither a number nor text")
            return None
        if isinstance(block, int) and 0 <= block <= INT64_MAX:
            return block
        if isinstance(block, str) and block.isascii() and block.isdecimal() and len(block) < 19:
            return int(block)
        rest["block_hash"] = text = clean_text(str(block), 200)
        return stable_id(text)

    def _cell(self, column: str, value: Any, line: int, rest: dict[str, Any]) -> Any:
        if value is None:
            return None
        if column == "request_id":
            return clean_text(value if isinstance(value, str) else str(value)[:200])
        try:
            if isinstance(value, bool):
                raise ValueError("not a number")
            text = str(value).strip()[:60]
            number = int(text, 16) if text[:2].lower() == "0x" else to_integer(text)
        except ValueError:
            if column == "thread_id" and isinstance(value, str):
                rest["thread"] = value  # by name
                return None
            detail = f"{column}: {str(value)[:40]!r}, first at line {line}"
            self._sink.count("damaged_values", severity="data_loss", detail=detail)
            return None
        # A reference count below zero is what a reader looks for here.
        low, high = (-INT64_MAX if column == "reference_count" else 0), UINT64_MAX if column == "address" else INT64_MAX
        if not low <= number <= high:
            name = "negative_values" if number < 0 else "numbers_beyond_64_bits"
            self._sink.count(name, severity="data_loss", detail=f"{column}, first at line {line}")
            return None
        return number


def read(path: Path, sink: Sink) -> None:
    """Read `kv_block_events`; a line that is no event is counted, a damaged value becomes null."""
    reader = _Reader(sink)
    with open_lines(path, sink) as lines:
        for number, line in lines:
            if line and not line.isspace():
                reader.line(line, number)
    reader.close()


IMPORTER = Importer(
    name="kv_events",
    priority=54,
    title="KV block events (JSON Lines)",
    source="kv_events",
    clock="realtime",
    versions="objects with an event and a block; vLLM's BlockStored, BlockRemoved, AllBlocksCleared, also in batches",
    produced_by="a paged KV cache that logs its reference counts; a subscriber of vLLM's KV events",
    recipe="in the block manager: print(json.dumps({'timestamp_ns': t, 'seq': n, 'event': 'incref', 'block_id': b,"
    " 'request_id': r, 'refcount': c, 'thread': tid}))",
    left_out="token ids and prompts; unknown keys go to `attributes`",
    reference="https://docs.vllm.ai/en/latest/api/vllm/distributed/kv_events/",
    tables=("kv_block_events",),
    sniff=sniff,
    read=read,
)
