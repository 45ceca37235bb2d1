"""The plots of one pipeline: lag and rows per second over a range that is chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from cdc.status.history import read_history, thinned
from cdc.status.model import Point, StatusDocument
from cdc.web.drawing import plot, rate_axis
from cdc.web.html import Child, Markup, el
from cdc.web.layout import live
from cdc.web.words import lag

RANGES = {"20min": ("20 min", 1200.0), "3h": ("3 h", 10_800.0), "24h": ("24 h", 86_400.0), "7d": ("7 days", 604_800.0)}
"""By the value in the address: the label, and seconds."""
_MOST = 360
"""Points of a line."""


def plots(name: str, status: StatusDocument, root: Path, span: str, query: str) -> Markup:
    """Both plots, and links to the other ranges."""
    now_s = time.time()
    points, begin_s = _points(status, root, span, now_s)
    behind = plot(points, [("lag", lambda point: point.lag_s)], "Lag", lag, now_s, begin_s, "s")
    lines = [("read", lambda p: p.read_per_s), ("written", lambda p: p.written_per_s)]
    through = plot(points, lines, "Rows per second", rate_axis, now_s, begin_s, "rows/s")
    keys = el("span", el("i", class_="key read"), "read", el("i", class_="key written"), "written", class_="legend")
    return el(
        "div",
        el("nav", (_link(key, label, span, query) for key, (label, _) in RANGES.items()), class_="ranges",
           aria_label="Range of the plots"),
        el(
            "div",
            el("section", el("h2", "Lag"), live("plot-lag", behind)),
            el("section", el("h2", "Rows per second ", keys), live("plot-rows", through)),
            class_="two",
        ),
        class_="plots",
    )  # fmt: skip


def _points(status: StatusDocument, root: Path, span: str, now_s: float) -> tuple[Sequence[Point], float]:
    """The shown points and their beginning. The shortest range has the points of the status document."""
    _, length_s = RANGES[span]
    begin_s = now_s - length_s
    if span == "20min":
        return [point for point in status.points if point.at_s >= begin_s], begin_s
    return thinned(read_history(root, begin_s), _MOST), begin_s


def _link(key: str, label: str, chosen: str, query: str) -> Child:
    parameters = {"range": key, **({"q": query} if query else {})}
    return el("a", label, href="?" + urlencode(parameters), aria_current="true" if key == chosen else None)
