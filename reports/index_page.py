"""OUT/index.html: one row a capture, with its verdict and a link to its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports import text


def render_index(captures: Sequence[dict[str, Any]]) -> str:
    """The page for capture summaries as plain data (`pipeline.summary`); self-contained, everything escaped."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(bytes_text=text.bytes_text, plural=text.plural)
    return environment.get_template("index.html.j2").render(captures=captures)
