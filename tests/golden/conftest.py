"""Each recorded capture is analyzed once a session."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generate.judging import Verdicts
from tests.golden.captures import ROOT, judge


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Verdicts]:
    """Verdicts of a recorded capture by its folder's name."""
    known: dict[str, Verdicts] = {}

    def read(name: str) -> Verdicts:
        if not (ROOT / name).is_dir():
            pytest.skip(f"the recorded capture {name} is not beside the checkout")
        if name not in known:
            known[name] = judge(ROOT / name, tmp_path_factory.mktemp(name) / "out")
        return known[name]

    return read
