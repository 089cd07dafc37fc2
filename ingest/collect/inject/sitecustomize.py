"""Loaded by the recorded program's interpreter at its start, because `leakpath collect` puts this folder on PYTHONPATH.

It starts the agent under a name of its own, so that the program never sees leakpath's packages, then runs the
sitecustomize that this one hides, if there is one.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _start_agent() -> None:
    name = "leakpath_collect"
    folder = _HERE.parent
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{name}.agent").start()


def _run_hidden_sitecustomize() -> None:
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


try:
    _run_hidden_sitecustomize()
finally:
    _start_agent()
