"""compare.html: two captures side by side; self-contained, without a script, everything escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.models.compare import read_comparison


def render_comparison(result: dict[str, Any], graphs: Sequence[str]) -> str:
    """The page of a result document, with links to flame graphs beside it."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = files("reports").joinpath("templates/style.css").read_text("utf-8")
    return environment.get_template("compare.html.j2").render(
        page=read_comparison(result),
        graphs=list(graphs),
        version=result["leakpath"],
        style=Markup(style),  # our own file, and the only text that is not escaped
        style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
