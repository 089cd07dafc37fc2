"""Numbers and names as a person reads them."""

from __future__ import annotations

import pytest

from reports import text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "not known"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (4096, "4.1 kB"),
        (14_512_128, "14.5 MB"),
        (33_554_432, "33.6 MB"),
        (914_248_720, "914 MB"),
        (999_600_000, "1 GB"),
        (2_200_000_000, "2.2 GB"),
        (150_754_820_096, "151 GB"),
        (-69_632, "−69.6 kB"),
    ],
)
def test_bytes_have_three_digits_and_a_decimal_unit(value: int | None, expected: str) -> None:
    assert text.bytes_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 ns"),
        (180_000, "180 µs"),
        (1_500_000_000, "1.5 s"),
        (300_000_000_000, "5.0 min"),
        (7_200_000_000_000, "2.0 h"),
        (-5_000_000, "−5 ms"),
        (200_000_000_000_000, "2.3 days"),
        (None, "not known"),
    ],
)
def test_durations(value: int | None, expected: str) -> None:
    assert text.duration_text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.97, "97 %"), (0.9999, "> 99 %"), (1.0, "100 %"), (0.0, "0 %"), (0.0001, "< 1 %"), (None, "not known")],
)
def test_a_share_never_rounds_to_certainty(value: float | None, expected: str) -> None:
    assert text.share_text(value) == expected


def test_plurals() -> None:
    assert [text.plural(1, "request"), text.plural(2, "process"), text.plural(1250, "family")] == [
        "1 request",
        "2 processes",
        "1,250 families",
    ]


def test_times_that_no_calendar_has() -> None:
    assert text.utc_text(1_700_000_000_000_000_000) == "2023-11-14 22:13:20 UTC"
    assert text.utc_text(9_223_372_036_854_775_807) == "2262-04-11 23:47:16 UTC"
    assert text.utc_text(50_286_442_016) == "50.286 s, no date"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("a\nb\x1b[31m", "a\\u000ab\\u001b[31m"),
        ("zero\u200bwidth\u2066", "zero\\u200bwidth\\u2066"),
        ("Größe_π", "Größe_π"),
        (None, ""),
    ],
)
def test_invisible_characters_are_spelled_out(hostile: str | None, shown: str) -> None:
    assert text.tidy(hostile) == shown


def test_long_text_is_cut() -> None:
    assert text.tidy("x" * 1_000_000, 50) == "x" * 49 + "…"
    assert text.tidy_middle("a" * 100 + "b" * 100, 30) == "a" * 10 + "…" + "b" * 19


def test_places() -> None:
    assert text.place_text(rank=1, process_id=-8, device_index=0) == "rank 1, unnamed process 8, device 0"
    assert text.place_text(process_id=426) == "process 426"
    assert text.place_text() == ""
