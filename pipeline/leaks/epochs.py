"""The epochs that survivors are judged over, a process, with what their requests are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.database import Database
from pipeline.leaks.attributes import request_attributes, scalar_attributes


@dataclass(frozen=True, slots=True)
class Epochs:
    """Epochs of one process: how many are complete, their kind, the span they take, and their requests' attributes.

    `context` has what ranges and metrics tell of an epoch. It describes, and never decides whether something leaks:
    what is built in a range comes with that range.
    """

    kind: str
    count: int
    span_ns: int
    attributes: dict[int, dict[str, str]]
    context: dict[int, dict[str, str]] = field(default_factory=dict)

    def told(self) -> dict[int, dict[str, str]]:
        """Attributes and context of each epoch together."""
        return {
            epoch: self.context.get(epoch, {}) | self.attributes.get(epoch, {})
            for epoch in range(self.count)
            if epoch in self.context or epoch in self.attributes
        }

    @property
    def is_named(self) -> bool:
        """Whether something in the capture numbers what repeats."""
        return self.kind not in _UNNAMED


_UNNAMED = ("repeated range", "idle window", "time window")
NO_EPOCHS = Epochs("none", 0, 0, {})


def load_request_attributes(database: Database) -> dict[tuple[int | None, str], dict[str, str]]:
    """Attributes of each request by process (None: not known) and request id."""
    columns = ("status", "model", "request_kind", "rank", "prompt_tokens", "output_tokens", "attributes")
    return {
        (process, request): request_attributes(dict(zip(columns, values, strict=True)))
        for process, request, *values in database.rows(
            f"SELECT process_id, request_id, {', '.join(columns)} FROM request_spans ORDER BY start_ns DESC"
        )
    }


def load_contexts(database: Database) -> dict[int | None, dict[int, dict[str, str]]]:
    """What ranges and metrics tell of each epoch, by process."""
    database.run("leaks", "epoch_contexts")
    found: dict[int | None, dict[int, dict[str, str]]] = {}
    for process, epoch, name, value in database.rows(
        "SELECT process_id, epoch_index, name, value FROM epoch_contexts WHERE name IS NOT NULL AND value IS NOT NULL"
        " ORDER BY ALL"
    ):
        told = found.setdefault(process, {}).setdefault(epoch, {})
        told |= scalar_attributes(value) if name == "json" else {name[:60]: value[:60]}
    return found


def load_epochs(database: Database) -> dict[int | None, Epochs]:
    """Epochs a process. The last one counts only when it ended before the recording did."""
    ends = dict(
        database.rows("SELECT process_id, max(ts_ns) FROM memory_events WHERE clock_aligned GROUP BY process_id")
    )
    found: dict[int | None, Epochs] = {}
    requests, contexts = load_request_attributes(database), load_contexts(database)
    by_process: dict[int | None, list[tuple[Any, ...]]] = {}
    for process, *row in database.rows(
        "SELECT process_id, epoch_kind, start_ns, end_ns, request_id FROM epochs ORDER BY process_id, epoch_index"
    ):
        by_process.setdefault(process, []).append(tuple(row))
    for process, rows in by_process.items():
        starts = [row[1] for row in rows]
        typical = float(np.median(np.diff(starts))) if len(starts) > 1 else 0.0
        end, last = rows[-1][2], ends.get(process)
        complete = end is not None and (last is None or end <= last + max(0.5 * typical, 1e7))
        attributes = {}
        for index, (_, _, _, request) in enumerate(rows):
            known = requests.get((process, request)) or requests.get((None, request))
            if request is not None and known:
                attributes[index] = known
        count = len(rows) if complete else len(rows) - 1
        span = (end if complete and end is not None else starts[-1]) - starts[0]
        found[process] = Epochs(rows[0][0], count, max(span, 0), attributes, contexts.get(process, {}))
    return found


def tokens_by_epoch(database: Database) -> dict[int | None, dict[int, int]]:
    """Prompt and output tokens of each epoch's request, by process; epochs whose request has no counts are left out."""
    found: dict[int | None, dict[int, int]] = {}
    for process, index, count in database.rows(
        "SELECT e.process_id, e.epoch_index, max(coalesce(r.prompt_tokens, 0) + coalesce(r.output_tokens, 0))"
        " FROM epochs AS e JOIN request_spans AS r ON r.request_id = e.request_id"
        " AND (r.process_id = e.process_id OR r.process_id IS NULL)"
        " WHERE r.prompt_tokens IS NOT NULL OR r.output_tokens IS NOT NULL GROUP BY ALL"
    ):
        found.setdefault(process, {})[index] = count
    return found
