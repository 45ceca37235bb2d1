"""HTML as values: text is escaped wherever it goes, unless it is Markup, which only this module makes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import Final, LiteralString, TypeAlias

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
_SHORT: Final = 100


def el(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` is the attribute class, `aria_label` aria-label; True is without a value, None left out."""
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        shown = value if isinstance(value, Markup) else _escaped(value)
        parts.append(f" {name}" if value is True else f' {name}="{shown}"')
    parts.append("/>" if tag in _SHAPES else ">")
    if tag not in _EMPTY and tag not in _SHAPES:
        _add(parts, children)
        parts.append(f"</{tag}>")
    return Markup("".join(parts))


def text(child: Child) -> Markup:
    """Text inside an element: escaped, and without characters that turn it around or are not seen."""
    parts: list[str] = []
    _add(parts, (child,))
    return Markup("".join(parts))


def _add(parts: list[str], children: Iterable[Child]) -> None:
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str | int | float):
            parts.append(_escaped(child))
        elif child is not None:
            _add(parts, child)


def fill(template: LiteralString, **values: Child) -> Markup:
    """A template of HTML with a text at each `{place}`: for what comes hundreds of times in a page."""
    return Markup(template.format_map({name: text(value) for name, value in values.items()}))


def svg(width: float, height: float, *children: Child, label: str, class_: str) -> Markup:
    """A drawing with a text for those who do not see it."""
    return el(
        "svg", children, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, class_=class_,
        preserveAspectRatio="none" if class_ == "spark" else None,
    )  # fmt: skip


def _escaped(value: str | int | float) -> str:
    written = str(value)
    return _short(written) if len(written) < _SHORT else escape(printed(written, longest=_LONGEST))


@lru_cache(maxsize=16_384)
def _short(written: str) -> str:
    """The same names and words come again and again: in the rows of a list, and each time that it is looked at."""
    return escape(printed(written))
