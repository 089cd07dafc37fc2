"""Values of events as parts of columns.

Those of events decoded by type wait as lists until they are worth an array: each array is dear to begin.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from msgspec.structs import astuple

from ingest.kineto_columns import Columns, arguments, pick
from ingest.kineto_paths import Paths
from ingest.kineto_spans import Int32s
from ingest.kineto_tables import DEVICE, NUMBERS, OTHERS, Made
from ingest.kineto_threads import Threads
from ingest.kineto_typed import Form


class Values:
    """Values by kind of event and column."""

    def __init__(self, columns: Columns, paths: Paths, threads: Threads) -> None:
        self._columns, self._paths, self._threads = columns, paths, threads
        self._lists: dict[str, dict[str, list[Any]]] = {}

    def add(self, form: Form, events: list[Any]) -> None:
        """Events of one category."""
        if (waiting := self._lists.get(form.kind)) is None:
            waiting = self._lists[form.kind] = defaultdict(list)
        columns = list(zip(*map(astuple, events), strict=True))
        for name, values in zip(form.fields, columns[1:], strict=False):
            waiting[name] += values
        if form.kind in ("python", "operator"):
            waiting["frame"] += map(self._paths.frames.__getitem__, columns[1])
        if form.arguments:
            for name, values in zip(form.arguments, zip(*map(astuple, columns[-1]), strict=True), strict=True):
                waiting[name] += values
        for name, value in form.constants.items():
            waiting[name] += [value] * len(events)

    def parts(self, kind: str) -> Made:
        """What waits of a kind as parts of columns, which then wait no more; empty when there is nothing."""
        values, columns = self._lists.pop(kind, None), self._columns
        if values is None:
            return {}
        made: Made = {name: columns.typed_moments(values[name], name) for name in ("ts", "dur") if name in values}
        if "frame" in values:
            made["frame"] = np.fromiter(values["frame"], np.int32, len(values["frame"]))
        if kind != "python":
            made["name"] = columns.words(values["name"])
        if "tid" in values:
            made["thread"] = self._threads.numbers(values["pid"], values["tid"])
        for name, number in NUMBERS.get(kind, {}).items():
            made[name] = columns.numbers(values[name], number)
        made |= {key: values[key] for key in (*OTHERS.get(kind, ()), "op", "api") if key in values}
        if kind == "gpu":
            pids = values["pid"] if made["device"].null_count else [None] * len(values["pid"])
            made["pid"] = columns.numbers(pids, DEVICE)
        return made

    def of_objects(self, kind: str, events: list[dict[str, Any]], constants: dict[str, str]) -> Made:
        """Parts of columns of events as JSON objects."""
        columns = self._columns
        made: Made = {"ts": columns.moments(pick(events, "ts"), "ts")}
        if kind != "memory":
            made["dur"] = columns.moments(pick(events, "dur"), "dur")
        names = pick(events, "name")
        if kind in ("python", "operator"):
            made["frame"] = self._frames(names)
        if kind != "python":
            made["name"] = columns.words(names)
        if kind not in ("gpu", "sync", "overhead"):
            made["thread"] = self._threads.numbers(pick(events, "pid"), pick(events, "tid"))
        if kind in NUMBERS:
            args = arguments(events)
            for name, number in NUMBERS[kind].items():
                made[name] = columns.numbers(pick(args, number.key), number)
            made |= {key: pick(args, key) for key in OTHERS.get(kind, ())}
        if kind == "gpu":
            pids = pick(events, "pid") if made["device"].null_count else [None] * len(events)
            made["pid"] = columns.numbers(pids, DEVICE)
        return made | {name: [value] * len(events) for name, value in constants.items()}

    def _frames(self, names: list[Any]) -> Int32s:
        try:
            return np.fromiter(map(self._paths.frames.__getitem__, names), np.int32, len(names))
        except TypeError:  # no text for a name
            texts = [name or "?" for name in self._columns.texts(names).to_pylist()]
            return np.fromiter(map(self._paths.frames.__getitem__, texts), np.int32, len(texts))
