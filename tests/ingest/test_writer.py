"""Parquet that is written while the caller goes on: in order, whole, and with its errors."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import OutputError
from ingest.writer import ParquetFile, to_arrow
from schemas.tables import TABLES

FRAMES = TABLES["frames"]


def _rows(first: int) -> pa.Table:
    return to_arrow(FRAMES, {"frame_id": range(first, first + 1000), "function": ["f"] * 1000})


def test_batches_written_behind_keep_their_order(tmp_path: Path) -> None:
    file = ParquetFile(FRAMES, tmp_path / "frames.parquet")
    for place in range(20):
        (file.write if place % 3 == 0 else file.write_behind)(_rows(place * 1000))
    file.close()
    assert file.rows == 20_000
    assert pq.read_table(tmp_path / "frames.parquet")["frame_id"].to_pylist() == list(range(20_000))


@pytest.mark.parametrize("last_call", ["write_behind", "write", "close"])
def test_an_error_behind_comes_out_of_the_next_call(
    last_call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = ParquetFile(FRAMES, tmp_path / "frames.parquet")
    monkeypatch.setattr(file._writer, "write_table", full)
    file.write_behind(_rows(0))
    with pytest.raises(OutputError, match="No space left on device"):
        file.close() if last_call == "close" else getattr(file, last_call)(_rows(1000))
    file.discard()
    assert not list(tmp_path.iterdir()), "nothing half-written is left"
