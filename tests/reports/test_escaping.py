"""Hostile names stay text: no element, attribute, template or path in the page comes from a capture."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from reports.build import build_report
from tests.reports.builders import write_tables
from tests.reports.hostile import hostile_capture
from tests.reports.sample import leaking_capture


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.shown: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src", "action", "data", "poster")}

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def test_hostile_names_add_nothing_to_the_page(tmp_path: Path) -> None:
    hostile = Page(build_report(write_tables(tmp_path / "h", hostile_capture())).html.read_text("utf-8"))
    honest = Page(build_report(write_tables(tmp_path / "c", leaking_capture())).html.read_text("utf-8"))
    assert hostile.elements <= honest.elements
    assert hostile.attributes <= honest.attributes
    assert hostile.links == honest.links
    assert not honest.elements & {"script", "img", "iframe", "object", "embed", "form", "base", "link:import"}
    assert not {name for name in honest.attributes if name.startswith("on") or name == "style"}
    assert all(link.startswith(("#", "data:,", "flamegraphs/", "findings.json")) for link in honest.links)
    text = "".join(hostile.shown)
    assert "<script>window.pwned = 1</script>" in text  # shown, as text
    assert "{{ 7 * 191 }}" in text
    assert "1337" not in text
    assert not set(text) & set("\u202e\u2066\x00\x1b")


def test_only_the_style_sheet_is_allowed(leaking: Path) -> None:
    page = build_report(leaking).html.read_text("utf-8")
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert "http:" not in policy
    assert "https:" not in policy


def test_very_long_names_do_not_make_a_long_page(tmp_path: Path) -> None:
    files = build_report(write_tables(tmp_path, hostile_capture("B" * 1_000_000)))
    assert files.html.stat().st_size < 400_000
    for path in files.flamegraphs:
        assert path.stat().st_size < 100_000
        json.loads(path.read_bytes())


def test_the_title_is_cut_and_escaped(leaking: Path) -> None:
    page = build_report(leaking, title="<b>" + "t" * 5000).html.read_text("utf-8")
    assert "<b>" not in page.split("</head>")[0]
    assert "t" * 200 not in page
