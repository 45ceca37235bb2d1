"""The plots of one pipeline: lag and rows per second over a selected range."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdc.status.history import downsample, read_history
from cdc.status.model import Point, StatusDocument
from cdc.web.drawing import Plot, Value, plot
from cdc.web.words import count, lag

RANGES = {"20min": ("20 min", 1200.0), "3h": ("3 h", 10_800.0), "24h": ("24 h", 86_400.0), "7d": ("7 days", 604_800.0)}
"""Label and seconds of a range, by its value in the address."""
_MOST = 360
"""Maximum points of a line."""
_RATES: Mapping[str, Value] = {"read": lambda point: point.read_per_s, "written": lambda point: point.written_per_s}


def plots(status: StatusDocument, root: Path, span: str) -> tuple[Plot | None, Plot | None]:
    """Build both plots; None where there is nothing to plot yet."""
    now_s = time.time()
    begin_s = now_s - RANGES[span][1]
    points, shown_s = _points(status, root, span, begin_s), (begin_s, now_s)
    lag_plot = plot(points, {"lag": lambda point: point.lag_s}, "Lag", "s", lag, shown_s)
    return lag_plot, plot(points, _RATES, "Rows per second", "rows/s", _rate, shown_s)


def _rate(per_s: float) -> str:
    """Format a number of rows per second; a small one with its fraction: `0.5`."""
    return count(per_s) if per_s >= 10 or per_s == int(per_s) else f"{per_s:.2g}"


def _points(status: StatusDocument, root: Path, span: str, begin_s: float) -> Sequence[Point]:
    """Return the points to show. The shortest range uses those of the status document."""
    if span == "20min":
        return [point for point in status.points if point.at_s >= begin_s]
    return downsample(read_history(root, begin_s), _MOST)
