"""HTML as values: text is escaped wherever it goes, unless it is Markup, which only this module makes."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

from cdc.printed import printed


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_EMPTY: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_SHAPES: Final = frozenset({"line", "path", "polyline", "rect"})
"""Of SVG: there an element ends with a slash, or the next one is inside of it."""
_LONGEST: Final = 2_000


def el(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` is the attribute class, `aria_label` aria-label; True is without a value, None left out."""
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        shown = value if isinstance(value, Markup) else escape(_shown(value))
        parts.append(f" {name}" if value is True else f' {name}="{shown}"')
    parts.append("/>" if tag in _SHAPES else ">")
    if tag in _EMPTY or tag in _SHAPES:
        return Markup("".join(parts))
    return Markup("".join([*parts, text(children), f"</{tag}>"]))


def text(child: Child) -> Markup:
    """Text inside an element: escaped, and without characters that turn it around or are not seen."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return Markup(escape(_shown(child)))
    return Markup("".join(text(each) for each in child))


def svg(width: float, height: float, *children: Child, label: str, class_: str) -> Markup:
    """A drawing with a text for those who do not see it."""
    return el(
        "svg", children, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, class_=class_,
        preserveAspectRatio="none" if class_ == "spark" else None,
    )  # fmt: skip


def _shown(value: str | int | float) -> str:
    return printed(value, longest=_LONGEST)
