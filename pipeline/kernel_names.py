"""Base names of kernels, so that what one tool calls `void at::add<int>(int*)` and another `_ZN2at3addIiEEvPi` is one.

Mangled names: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling; read only as far as the function's own name.
"""

from __future__ import annotations

import re

import pyarrow as pa

from pipeline.database import Database

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\(anonymous\)|\{anonymous\}")
_OPEN, _CLOSE = "<([{", {">": "<", ")": "(", "]": "[", "}": "{"}
_COMPONENT = re.compile(r"(\d{1,4})(?=[A-Za-z_])")
_MARKS = re.compile(r"[rVKROL]|S[0-9A-Z]*_|S[abdiost]")


def _mangled(name: str) -> str | None:
    """The function's own name in `_ZN2at3addIiEEvPi`, None where that can't be told.

    A kernel is never a member of a class, so the first template arguments are its own and follow its name.
    """
    place, found = (3, None) if name.startswith("_ZN") else (2, None)
    while place < len(name):
        if component := _COMPONENT.match(name, place):
            end = component.end() + int(component[1])
            if end > len(name):
                return None
            found, place = name[component.end() : end], end
            while name[place : place + 1] == "B" and (tag := _COMPONENT.match(name, place + 1)):
                place = tag.end() + int(tag[1])
            if not name.startswith("_ZN"):
                return found
        elif name[place] in "IE":
            return found
        elif marks := _MARKS.match(name, place):
            place = marks.end()
        else:
            return None
    return None


def _demangled(name: str) -> str:
    """The name before the parameters, without template arguments, return type and namespaces."""
    stack: list[str] = []
    kept: list[str] = []
    previous = ""
    for mark in _ANONYMOUS.sub("anonymous", name):
        if mark == "(" and not stack and "".join(kept).strip():
            break
        if mark in _OPEN:
            stack.append(mark)
        elif mark in _CLOSE:
            if stack and stack[-1] == _CLOSE[mark] and not (mark == ">" and previous == "-"):
                stack.pop()
        elif not stack:
            kept.append(mark)
        previous = mark
    words = "".join(kept).split()
    return words[-1].rsplit("::", 1)[-1] if words else ""


def base_name(name: str) -> str:
    """The kernel's own name: no namespaces, template arguments, return type or parameters, mangled or not."""
    found = _mangled(name) if name.startswith("_Z") else _demangled(name)
    return found or name


def name_kernels(database: Database) -> None:
    """Make the table `kernel_base_names` (name, base_name) of all kernels, when any launch was profiled."""
    names = database.rows(
        "SELECT DISTINCT name FROM kernel_metrics WHERE name IS NOT NULL UNION SELECT DISTINCT name FROM gpu_ops"
        " WHERE op = 'kernel' AND name IS NOT NULL AND EXISTS (SELECT 1 FROM kernel_metrics) ORDER BY name"
    )
    texts = [name for (name,) in names]
    bases = [base_name(name) for name in texts]
    table = pa.table({"name": pa.array(texts, pa.string()), "base_name": pa.array(bases, pa.string())})
    database.connection.register("_named", table)
    database.connection.execute("CREATE OR REPLACE TEMP TABLE kernel_base_names AS SELECT * FROM _named")
    database.connection.unregister("_named")
