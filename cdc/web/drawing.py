"""Drawings as inline SVG, without style attributes: plots, where a batch's time went, the way of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cdc.status.model import PHASES, Point
from cdc.web.html import Child, Markup, el, svg
from cdc.web.words import rate, seconds

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640.0, 150.0, 52.0, 18.0
SPARK_POINTS = 24

Value = Callable[[Point], float | None]


def plot(
    points: Sequence[Point],
    lines: Sequence[tuple[str, Value]],
    label: str,
    unit: Callable[[float], str],
    now_s: float,
    begin_s: float,
    measure: str,
) -> Markup:
    """Lines from a time to now, with three marks on the left; each line's class is its name. The script shows values
    under the pointer, in `measure`: it knows the scale by the attributes."""
    if not points:
        return el("p", "Nothing to plot yet.", class_="empty")
    begin, end = min(begin_s, points[0].at_s), max(now_s, points[-1].at_s, begin_s + 60)
    top = max((value(point) or 0.0 for point in points for _, value in lines), default=0.0) or 1.0
    right, height = _WIDTH - _LEFT - 6, _HEIGHT - _BOTTOM - 8

    def place(at_s: float, number: float) -> str:
        return f"{_LEFT + right * (at_s - begin) / (end - begin):.1f},{8 + height * (1 - number / top):.2f}"

    parts: list[Child] = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + height * (1 - share)
        parts.append(el("line", x1=_LEFT, x2=_WIDTH - 6, y1=round(y, 1), y2=round(y, 1), class_="grid"))
        parts.append(el("text", unit(top * share), x=_LEFT - 6, y=round(y + 4, 1), text_anchor="end"))
    parts.append(el("text", f"{seconds(end - begin)} ago", x=_LEFT, y=_HEIGHT - 3))
    parts.append(el("text", "now", x=_WIDTH - 6, y=_HEIGHT - 3, text_anchor="end"))
    for name, value in lines:
        for stretch in _stretches(points, value, end):
            parts.append(
                el("polyline", points=Markup(" ".join(place(*each) for each in stretch)), class_=f"line {name}")
            )
    last = [f"{name} {unit(value(points[-1]) or 0.0)}" for name, value in lines]
    title = f"{label}: now {', '.join(last)}, at most {unit(top)}"
    drawn = svg(_WIDTH, _HEIGHT, parts, label=title, class_="plot")
    return el(
        "div", drawn, class_="hover", tabindex="0", role="group", aria_label=f"{label}: arrow keys show values",
        data_begin=begin, data_end=end, data_top=top, data_left=_LEFT, data_right=_LEFT + right, data_height=height,
        data_measure=measure,
    )  # fmt: skip


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


def spark(points: Sequence[Point], label: str) -> Markup:
    """Rows written per second as a small line."""
    last = [point.written_per_s for point in points[-SPARK_POINTS:]]
    top = max(last, default=0.0) or 1.0
    places = " ".join([f"{i},{19 - round(17 * rate / top)}" for i, rate in enumerate(last)])
    line = el("polyline", points=Markup(places or "0,19 1,19"), class_="line written")
    return svg(max(1, len(last) - 1), 20, line, label=label, class_="spark")


def phase_bar(phases: Mapping[str, float], duration_s: float) -> Markup:
    """One bar of as many parts as there are phases."""
    total = sum(phases.values()) or 1.0
    parts: list[Child] = []
    x = 0.0
    for name in PHASES:
        width = 200 * phases.get(name, 0.0) / total
        if width >= 0.5:
            bar = el("rect", x=round(x, 1), y=0, width=round(width, 1), height=10, class_=f"phase {name}")
            parts.append(el("g", el("title", f"{name} {seconds(phases[name])}"), bar))
            x += width
    title = ", ".join(f"{name} {seconds(phases[name])}" for name in PHASES if name in phases)
    return svg(200, 10, parts, label=f"{seconds(duration_s)}: {title}", class_="phases")


def legend() -> Markup:
    """The legend of the phases' colours."""
    keys = (el("span", el("i", class_=f"key {name}"), name) for name in PHASES)
    return el("p", keys, class_="legend", aria_hidden="true")


def data_path(stages: Sequence[tuple[str, str, Sequence[str]]], *, moving: bool, label: str) -> Markup:
    """Boxes from left to right: what each is, its name, and lines about it; arrows that move while rows do."""
    width, gap, height = 190.0, 46.0, 92.0
    parts: list[Child] = []
    for number, (kind, name, lines) in enumerate(stages):
        x = number * (width + gap)
        if number:
            y = height / 2
            class_ = "flow moving" if moving else "flow"
            parts.append(el("line", x1=x - gap + 4, x2=x - 12, y1=y, y2=y, class_=class_))
            parts.append(el("path", d=f"M {x - 14} {y - 5} L {x - 5} {y} L {x - 14} {y + 5} Z", class_="head"))
        parts.append(el("rect", x=x + 1, y=1, width=width - 2, height=height - 2, rx=9, class_=f"stage {kind}"))
        parts.append(el("text", kind, x=x + 14, y=22, class_="kind"))
        parts.append(el("text", _cut(name, 22), el("title", name), x=x + 14, y=43, class_="name"))
        for line, text in enumerate(lines[:2]):
            parts.append(el("text", _cut(text, 30), x=x + 14, y=64 + 17 * line, class_="about"))
    whole = len(stages) * width + (len(stages) - 1) * gap
    return svg(whole, height, parts, label=label, class_="path")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def rate_axis(number: float) -> str:
    """Rows per second beside an axis."""
    return rate(number).removesuffix(" rows/s")
