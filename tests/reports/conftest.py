"""The sample capture, written once a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.builders import write_tables
from tests.reports.sample import leaking_capture


@pytest.fixture
def leaking(tmp_path: Path) -> Path:
    """A capture folder with the tables of `leaking_capture`."""
    return write_tables(tmp_path / "demo", leaking_capture())
