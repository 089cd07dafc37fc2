"""Pages and schemas that are derived from the code are up to date, and complete."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from schemas.fields import FIELDS
from schemas.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_stale(generate: ModuleType) -> None:
    stale = [str(path.relative_to(ROOT)) for path in generate.stale(generate.generated())]
    assert stale == [], "run `make docs`"


def test_a_stale_page_is_found(generate: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert generate.stale({page: "new"}) == [page]
    page.write_text("old")
    assert generate.stale({page: "new"}) == [page]
    page.write_text("new")
    assert generate.stale({page: "new"}) == []


def test_the_table_page_has_every_table_and_column(generate: ModuleType) -> None:
    page = generate.tables_page()
    for table in TABLES.values():
        assert f"### {table.name}\n" in page
    for name in {column for table in TABLES.values() for column in table.columns}:
        assert f"| `{name}` |" in page
        assert FIELDS[name].sentence


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        for part in page.read_text(encoding="utf-8").split("](")[1:]:
            target = part.split(")")[0].partition("#")[0]
            if target and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
