"""Keeps PyArrow from importing pandas.

Where pandas is installed, PyArrow imports it on the first conversion of a Python list, to tell its series from lists:
half a second and 40 MB a process, for nothing that is used here. It asks once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not needed", name=fullname)
        return None


def _ask_once() -> None:
    if "pandas" not in sys.modules:
        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(finder)


_ask_once()
