"""The geometry of drawings: where lines, bars and marks are. The templates draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc.status.model import PHASES, Point

LEFT, RIGHT, TOP, BOTTOM = 52, 634, 8, 132
"""Where the lines of a plot are."""
EDGES = {"LEFT": LEFT, "RIGHT": RIGHT, "TOP": TOP, "BOTTOM": BOTTOM}
"""These, by the names that the templates have for them."""
SPARK_POINTS = 24

Value = Callable[[Point], float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines from a time to now: names and points. The script shows values under the pointer, in `measure`: it knows the
    scale by the times, by the value at the `top`, and by where the lines are."""

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
        """Three marks on the left: how far down, and the value there."""
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
    """The plot of the points over a span of time; None where there is none."""
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
    """Runs of known values; the last one goes on to now."""
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
    """Rows written per second as a small line: its width and its points."""
    last = [point.written_per_s for point in points[-SPARK_POINTS:]]
    top = max(last, default=0.0) or 1.0
    places = " ".join([f"{i},{19 - round(17 * rate / top)}" for i, rate in enumerate(last)])
    return max(1, len(last) - 1), places or "0,19 1,19"


def phase_bars(phases: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """The parts of a bar of 200: the name of a phase, where its part begins, and its width."""
    total = sum(phases.values()) or 1.0
    x = 0.0
    for name in PHASES:
        width = 200 * phases.get(name, 0.0) / total
        if width >= 0.5:
            yield name, round(x, 1), round(width, 1)
            x += width
