"""report.html: the report's plain data through its templates. Everything is escaped, nothing is a script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports import text
from reports.callstacks import TITLES, Graph
from reports.chart import draw
from reports.models.report import Report
from reports.models.timeline import describe_thinning

_FILTERS = (
    "bytes_text",
    "count_text",
    "duration_text",
    "exact_bytes",
    "p_value_text",
    "plural",
    "share_text",
    "utc_text",
)


def render_html(report: Report, version: str, graphs: Sequence[Graph]) -> str:
    """The page with links to `graphs`: no network, no script; its content security policy admits only its own style."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update({name: getattr(text, name) for name in _FILTERS})
    style = files("reports").joinpath("templates/style.css").read_text("utf-8")
    charts = [
        (timeline, draw(timeline, columns=80 if number == 0 else 40), describe_thinning(timeline))
        for number, timeline in enumerate(report.timelines)
    ]
    return environment.get_template("report.html.j2").render(
        report=report,
        charts=charts,
        graphs=[(graph, TITLES[graph]) for graph in graphs],
        version=version,
        style=Markup(style),  # our own file, and the only text that is not escaped
        style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
