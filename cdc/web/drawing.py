"""Computes the geometry of drawings: positions of lines, bars and marks. The templates draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc.status.model import PHASES, Point

LEFT, RIGHT, TOP, BOTTOM = 52, 634, 8, 132
"""Edges of the lines in a plot."""
EDGES = {"LEFT": LEFT, "RIGHT": RIGHT, "TOP": TOP, "BOTTOM": BOTTOM}
"""The edges by their names in templates."""
SPARK_POINTS = 24

Value = Callable[[Point], float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot from a time until now: names and points of lines. The script shows the values under the pointer, in
    `measure`: it derives the scale from the times, the value at the `top`, and the edges."""

    name: str
    measure: str
    unit: Callable[[float], str]
    begin: float
    end: float
    top: float
    last: Mapping[str, float]
    lines: Sequence[tuple[str, str]]

    @property
    def marks(self) -> Iterator[tuple[float, str]]:
        """Three marks on the left: vertical position and value."""
        for share in (0.0, 0.5, 1.0):
            yield round(BOTTOM - (BOTTOM - TOP) * share, 1), self.unit(self.top * share)


def plot(
    points: Sequence[Point],
    lines: Mapping[str, Value],
    name: str,
    measure: str,
    unit: Callable[[float], str],
    span_s: tuple[float, float],
) -> Plot | None:
    """Build the plot of the points over a span of time; None without points."""
    if not points:
        return None
    begin, end = min(span_s[0], points[0].at_s), max(span_s[1], points[-1].at_s, span_s[0] + 60)
    top = max((value(point) or 0.0 for point in points for value in lines.values()), default=0.0) or 1.0

    def place(at_s: float, number: float) -> str:
        x = LEFT + (RIGHT - LEFT) * (at_s - begin) / (end - begin)
        return f"{x:.1f},{BOTTOM - (BOTTOM - TOP) * number / top:.2f}"

    drawn = [
        (line, " ".join(place(*each) for each in stretch))
        for line, value in lines.items()
        for stretch in _stretches(points, value, end)
    ]
    last = {line: value(points[-1]) or 0.0 for line, value in lines.items()}
    return Plot(name, measure, unit, begin, end, top, last, drawn)


def _stretches(points: Sequence[Point], value: Value, end: float) -> list[list[tuple[float, float]]]:
    """Return stretches of known values; the last one is extended until now."""
    found: list[list[tuple[float, float]]] = [[]]
    for point in points:
        number = value(point)
        if number is None:
            found.append([])
        else:
            found[-1].append((point.at_s, number))
    if found[-1]:
        found[-1].append((end, found[-1][-1][1]))
    return [stretch for stretch in found if stretch]


def spark_points(points: Sequence[Point]) -> tuple[int, str]:
    """Return the width and the points of a small line of the rows written per second."""
    last = [point.written_per_s for point in points[-SPARK_POINTS:]]
    top = max(last, default=0.0) or 1.0
    coordinates = " ".join([f"{i},{19 - round(17 * rate / top)}" for i, rate in enumerate(last)])
    return max(1, len(last) - 1), coordinates or "0,19 1,19"


def phase_bars(phases: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Yield the parts of a bar of width 200: name of the phase, position and width."""
    total = sum(phases.values()) or 1.0
    x = 0.0
    for name in PHASES:
        width = 200 * phases.get(name, 0.0) / total
        if width >= 0.5:
            yield name, round(x, 1), round(width, 1)
            x += width
