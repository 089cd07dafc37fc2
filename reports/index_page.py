"""OUT/index.html: one row a capture, with its verdict and a link to its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports import text


def render_index(captures: Sequence[dict[str, Any]], front: Sequence[dict[str, Any]] = ()) -> str:
    """The page for capture summaries as plain data (`pipeline.summary`); self-contained, everything escaped.

    `front` are rows of `pareto_front`, shown where there are several to weigh against each other.
    """
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        bytes_text=text.bytes_text,
        plural=text.plural,
        duration_text=text.duration_text,
        count_text=text.count_text,
    )
    return environment.get_template("index.html.j2").render(captures=captures, front=front)
