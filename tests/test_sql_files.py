"""Every SQL file says what it makes, makes exactly that last, and keeps its private steps private."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from ingest.capture import capture_files
from pipeline.compare_reading import summarise_capture
from pipeline.database import Database
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.workflow.tiny import write_tiny

SQL = Path(__file__).resolve().parents[1] / "pipeline" / "sql"
FILES = sorted(SQL.rglob("*.sql"))
_CREATED = re.compile(
    r"^CREATE (?:OR REPLACE )?(?:TEMP(?:ORARY)? )?(?:TABLE|VIEW|MACRO) (?:IF NOT EXISTS )?\"?(\w+)", re.I
)

_each = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def _statements(path: Path) -> list[str]:
    """Statements as DuckDB itself cuts them, comments left out."""
    parts = [statement.query.strip() for statement in duckdb.extract_statements(path.read_text(encoding="utf-8"))]
    return [re.sub(r"(?m)^\s*--.*\n?", "", part).strip() for part in parts]


def _created(statement: str) -> str | None:
    found = _CREATED.match(statement)
    return found[1] if found else None


def test_there_are_sql_files() -> None:
    assert len(FILES) > 15
    assert all(path.parent.parent == SQL for path in FILES), "areas have no folders of their own"


@_each
def test_the_public_relation_comes_last_and_alone(path: Path) -> None:
    created = [_created(statement) for statement in _statements(path)]
    assert created[-1] == path.stem, "the last statement makes the relation that the file is named for"
    others = [name for name in created[:-1] if name is not None]
    assert all(name.startswith("_") for name in others), "steps on the way are private"
    assert None not in created, "a statement that makes nothing"
    assert len(set(created)) == len(created)


@_each
def test_it_starts_with_a_sentence_that_says_what_it_makes(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert re.match(r"-- \S+ \S+ \S+", first)


@_each
def test_every_private_step_is_used(path: Path) -> None:
    text = "\n".join(_statements(path))
    for statement in _statements(path)[:-1]:
        name = _created(statement)
        assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is made and never read"


@_each
def test_a_file_is_short_and_joins_on_something(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 250
    assert not any(line != line.rstrip() for line in lines)
    assert not re.search(r"\bCROSS JOIN\b", "\n".join(_statements(path)), re.I), "never a cross product"


def test_every_file_is_run_and_leaves_nothing_private_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run of the pipeline on a small capture and a comparison ask for is what there is, no more and no less."""
    asked: set[tuple[str, str]] = set()
    original = Database.run

    def watched(database: Database, area: str, relation: str) -> None:
        original(database, area, relation)
        asked.add((area, relation))
        left = database.rows("SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, '_')")
        assert not left, f"{area}/{relation} leaves private steps"
        assert database.rows(f"SELECT count(*) FROM (DESCRIBE {relation})")[0][0] > 0

    monkeypatch.setattr(Database, "run", watched)
    root = tmp_path / "tiny"
    root.mkdir()
    write_tiny(root)
    ingest(capture_files(root), root, tmp_path / "out")
    analyze(tmp_path / "out", Config())
    summarise_capture(tmp_path / "out", Config())
    assert asked == {(path.parent.name, path.stem) for path in FILES}
