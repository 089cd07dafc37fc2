"""One database for all examples of a property: starting one takes longer than an example."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.database import Database


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder), threads=1) as opened:
        yield opened
