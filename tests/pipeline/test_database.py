"""What the SQL files take for granted of the database, and what it says when a relation grows out of bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline.database
from ingest.errors import LeakpathError
from pipeline.database import Database


def test_an_empty_over_goes_along_the_sorted_rows_whatever_the_threads(tmp_path: Path) -> None:
    shuffled = "SELECT (i * 7919) % 1000003 AS k FROM range(1000003) AS t(i)"
    with Database(tmp_path, threads=4) as database:
        database.connection.execute(f"CREATE TEMP TABLE shuffled AS {shuffled}")
        wrong = database.rows(
            "SELECT count(*) FROM (SELECT k, row_number() OVER () - 1 AS place, lag(k) OVER () AS before,"
            " sum(k) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM (SELECT k FROM shuffled ORDER BY k))"
            " WHERE place <> k OR coalesce(before <> k - 1, k <> 0) OR total <> k * (k + 1) // 2"
        )
    assert wrong == [(0,)]


def test_a_relation_beyond_memory_and_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.database, "MEMORY_LIMIT", "60MB")
    monkeypatch.setattr(pipeline.database, "TEMP_LIMIT", "10MB")
    monkeypatch.setattr(
        pipeline.database,
        "sql_text",
        lambda area, relation: "CREATE TEMP TABLE far_too_much AS SELECT i, hash(i) AS h FROM range(100000000) AS t(i)",
    )
    with (
        Database(tmp_path) as database,
        pytest.raises(LeakpathError, match=r"leaks/far_too_much.sql yields more rows than 60MB of memory and 10MB"),
    ):
        database.run("leaks", "far_too_much")
