"""A capture whose every name tries to become markup, a script, another direction or a very long page."""

from __future__ import annotations

from typing import Any

from schemas.fields import FIELDS
from tests.reports.sample import leaking_capture

ATTACK = (
    "</title></style></bdi></code></svg>\"'><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
    "<a href=\"javascript:window.pwned = 1\">{{ 7 * 191 }}{% raw %}</a><iframe src='http://198.51.100.7/'></iframe>\u202e\u2066\x00\x1b[31m"
)
KEPT = {
    "verdict",
    "level",
    "epoch_kind",
    "block_state",
    "ledger_part",
}  # without these the row would not be shown at all


def hostile_capture(filler: str = "A" * 20_000) -> dict[str, list[dict[str, Any]]]:
    """The sample capture with the attack, then `filler`, in every text column of every row."""
    text = ATTACK + filler
    return {name: [_hostile(row, name, text) for row in rows] for name, rows in leaking_capture().items()}


def _hostile(row: dict[str, Any], table: str, text: str) -> dict[str, Any]:
    changed = dict(row)
    for column in row:
        kind = FIELDS[column].kind
        if column in KEPT or (table == "findings" and column == "severity"):
            continue
        if kind == "text" and column != "request_id":
            changed[column] = f"{row[column]}{text}"
        elif kind == "list<text>":
            changed[column] = [text] * 3
    if "attributes" in row:
        changed["attributes"] = (
            '{"\\"><script>window.pwned = 1</script>": "<b>", "tier": "<script>window.pwned = 1</script>"}'
        )
    return changed
