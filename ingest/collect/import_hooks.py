"""Call back once a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any


class AfterImport(importlib.abc.MetaPathFinder):
    """Watches for some top-level modules; `callback(module)` runs right after each has executed, once."""

    def __init__(self, names: Iterable[str], callback: Callable[[ModuleType], None]) -> None:
        self.waiting = set(names)
        self.callback = callback

    def install(self) -> None:
        for name in [name for name in self.waiting if name in sys.modules]:
            self.waiting.discard(name)
            self.callback(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        self.waiting.discard(fullname)  # the search below, and any later import, go past us
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Wrapped(spec.loader, self.callback)
        return spec


class _Wrapped(importlib.abc.Loader):
    """A loader that runs the real one, puts it back in its place, then calls back."""

    def __init__(self, loader: Any, callback: Callable[[ModuleType], None]) -> None:
        self.loader, self.callback = loader, callback

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.callback(module)
