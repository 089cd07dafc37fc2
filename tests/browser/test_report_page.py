"""report.html as a person opens it: from disk, offline, in light, dark, narrow and print."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.build import build_report
from tests.browser.conftest import Browsing
from tests.reports.builders import write_tables
from tests.reports.hostile import hostile_capture
from tests.reports.sample import leaking_capture


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_report(write_tables(tmp_path_factory.mktemp("capture") / "demo", leaking_capture())).html


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_offline_without_complaint(browsing: Browsing, page_file: Path, scheme: str) -> None:
    opened = browsing.open(page_file, scheme=scheme)
    assert opened.complaints == []
    assert opened.requests == [page_file.as_uri()]


def test_first_screen_holds_verdict_findings_and_timeline(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    headline = page.locator("h1").inner_text()
    assert headline == "KV cache leak: 4 tensors, 4 MB kept by 2 of 6 requests, all with status=499; grows 2.4 GB/h."
    for part in (".verdict", ".findings", ".timeline", ".chart svg"):
        box = page.locator(part).first.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900, part
        assert box["x"] + box["width"] <= 1280, part
    assert page.locator(".mark.kept[x]").count() == 2


def test_main_numbers_are_there(browsing: Browsing, page_file: Path) -> None:
    text = browsing.open(page_file).page.inner_text("body")
    for number in (
        "4,000,000 bytes",
        "3,999,600 bytes requested",
        "2.4 GB/h",
        "2 of 6",
        "97 %",
        "96 MB",
        "29 %",
        "truncated line",
    ):
        assert number in text, number


def test_hovering_shows_values_at_that_time(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    column = page.locator(".column").nth(70)  # of 80 over 6 s: 5.29 s
    assert not column.locator(".tip").is_visible()
    column.locator(".hit").hover()
    tip = column.locator(".tip")
    assert tip.is_visible()
    assert tip.locator("text").all_text_contents()[:5] == [
        "5.29 s",
        "kept by suspects",
        "4 MB",
        "tensors (allocated)",
        "38 MB",
    ]


def test_keyboard_opens_the_leak_path(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    summary = page.locator(".card summary").first
    frames = page.locator(".card .path li").first
    assert frames.is_visible()  # the first suspect's path is open
    summary.focus()
    page.keyboard.press("Enter")
    assert not frames.is_visible()


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_nothing_spills_over_the_side(browsing: Browsing, page_file: Path, width: int) -> None:
    page = browsing.open(page_file, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_prints_what_is_folded_away(browsing: Browsing, page_file: Path) -> None:
    page = browsing.open(page_file).page
    folded = page.locator("details:not([open])")
    assert folded.count() == 1
    advice = folded.locator("p").first
    assert not advice.is_visible()
    page.emulate_media(media="print")
    assert advice.is_visible()
    assert not page.locator("nav").is_visible()
    page.set_viewport_size({"width": 700, "height": 1000})  # A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browsing: Browsing, page_file: Path, scheme: str) -> None:
    """WCAG AA, 4.5 to 1, for every text that lies on a plain ground."""
    page = browsing.open(page_file, scheme=scheme).page
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


def test_hostile_names_stay_inert(browsing: Browsing, tmp_path: Path) -> None:
    files = build_report(write_tables(tmp_path / "x", hostile_capture()))
    opened = browsing.open(files.html)
    assert opened.complaints == []
    assert opened.requests == [files.html.as_uri()]
    page = opened.page
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator("script, img, iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "<script>window.pwned = 1</script>" in page.inner_text("body")


CONTRAST = """() => {
  const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 };
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  let worst = { ratio: 99 };
  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('svg') || !element.checkVisibility() || element.classList.contains('skip')) continue;
    if (![...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    let ground = element;
    const painted = e => parse(getComputedStyle(e).backgroundColor);
    while (ground.parentElement && (painted(ground)[3] ?? 1) === 0) ground = ground.parentElement;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(painted(ground))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = element.className || element.tagName;
    if (ratio < worst.ratio) worst = { ratio, text: element.textContent.slice(0, 60), of: name };
  }
  return worst;
}"""
