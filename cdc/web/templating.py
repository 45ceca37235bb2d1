"""Renders the templates in `templates/`; all text is escaped unless it is Markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from cdc.printable import printable
from cdc.status.model import PHASES
from cdc.web import drawing, words

_LONGEST: Final = 2_000
_SHORT: Final = 100


@dataclass(frozen=True, slots=True)
class Visitor:
    """The visitor of a page: the token of forms, and whether actions and logging out are offered."""

    form_token: str
    read_only: bool
    logged_in: bool


def link(name: str, page: str = "pipelines") -> str:
    """Return the address of a pipeline's page."""
    return f"/{page}/{quote(name, safe='')}"


def render(template: str, visitor: Visitor | None, crumbs: Sequence[tuple[str, str]] = (), **values: object) -> str:
    """Render a complete document. `crumbs` are names and addresses of the pages leading to it, including itself."""
    return _environment().get_template(template).render(values, visitor=visitor, crumbs=crumbs)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("cdc.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(link=link, PHASES=PHASES, **drawing.EDGES)
    environment.filters.update({each.__name__: each for each in words.FILTERS})
    environment.filters.update(bars=drawing.phase_bars, spark=drawing.spark_points)
    return environment


def _shown(value: object) -> Markup:
    """Return a value as escaped HTML, without invisible and direction-changing characters; None is empty."""
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    return _short(text) if len(text) < _SHORT else escape(_lines(text))


@lru_cache(maxsize=16_384)
def _short(text: str) -> Markup:
    """Escape a short text, cached, as the same names and words occur repeatedly."""
    return escape(_lines(text))


def _lines(text: str) -> str:
    """Escape each line separately, which keeps the indentation of a file."""
    return "\n".join(printable(line, longest=_LONGEST) for line in text.split("\n"))
