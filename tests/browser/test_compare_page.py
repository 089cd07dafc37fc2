"""compare.html as a person opens it: offline, in light, dark, narrow and print; hostile names stay text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.compare import compare
from pipeline.compare_files import write_comparison
from pipeline.compare_result import result_of
from pipeline.compare_summary import Summary
from schemas.compare_settings import CompareSettings
from tests.browser.conftest import Browsing
from tests.compare.test_verdicts import MIB, summary

EVIL = "</code><script>alert(1)</script><img src=x onerror=alert(2)>" + "x" * 500


def write(baseline: Summary, candidate: Summary, out: Path) -> Path:
    settings = CompareSettings()
    found = compare(baseline, candidate, settings)
    return write_comparison(found, result_of(found, settings.gate_quantities), out, is_gate=True)[0]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    other = summary(leaked=5 * MIB, settings={"expandable_segments": "True", EVIL: EVIL})
    other.capture, other.devices, other.leaks.titles = EVIL, [EVIL], [EVIL]
    other.frames = ["main", EVIL]
    return write(summary(), other, tmp_path_factory.mktemp("compare"))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_opens_offline_without_complaint(browsing: Browsing, page_file: Path, scheme: str, width: int) -> None:
    opened = browsing.open(page_file, scheme=scheme, width=width)
    assert opened.complaints == []
    assert opened.requests == [page_file.as_uri()]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.locator("script, img").count() == 0


def test_numbers_and_frames_are_there(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    assert page.locator("h1").inner_text().startswith("Regressed: leaked bytes an epoch 0 B → 5.24 MB")
    text = page.inner_text("body")
    for part in ("Gate: fail: the candidate leaks (exit code 1)", "126 MB", "expandable_segments", "not known in the"):
        assert part in text, part
    page.locator("#paths summary").first.click()
    assert "main" in page.locator("#paths ol.path").first.inner_text()


def test_prints_every_section(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    page.emulate_media(media="print")
    assert page.locator("#checks").is_visible() and page.locator("#method").is_visible()
    assert not page.locator("nav").is_visible()
