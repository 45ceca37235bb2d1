"""Common parts of all pages: head, navigation, badges, tables, buttons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from cdc.status.model import Error
from cdc.web.html import Attribute, Child, Markup, el
from cdc.web.words import when

_MARK = "M4 8h9l4 4h7M4 16h9l4-4"
TONES = {
    "running": "good", "finished": "good", "scheduled": "calm", "stopped": "calm", "starting": "busy",
    "stopping": "busy", "waiting": "warn", "failed": "bad", "invalid": "bad", "lost": "bad", "ended": "calm",
}  # fmt: skip

RUNNING = ("starting", "running", "stopping")
"""States of a pipeline that has a run."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The reader of a page: the token of the forms, and whether actions and logging out are offered."""

    form_token: str
    read_only: bool
    logged_in: bool


def page(title: str, visitor: Visitor | None, *children: Child, crumbs: Sequence[tuple[str, str]] = ()) -> str:
    """A whole document. Parts with `data-live` are brought up to date by the script."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · cdc"),
        el("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        el("link", rel="stylesheet", href="/static/style.css"),
        el("script", src="/static/page.js", defer=True),
    )
    mark = el("svg", el("path", d=_MARK), viewBox="0 0 28 24", aria_hidden="true", class_="mark")
    trail = [el("a", mark, "cdc", href="/", class_="brand", aria_label="cdc: all pipelines")]
    trail += [el("a", name, href=href) for name, href in crumbs]
    right: list[Child] = []
    if visitor is not None and visitor.read_only:
        right.append(el("span", "read-only", class_="badge calm"))
    right.append(el("span", "live", id="live", class_="live", role="status", aria_live="polite"))
    if visitor is not None and visitor.logged_in:
        token = el("input", type="hidden", name="csrf", value=visitor.form_token)
        right.append(el("form", token, el("button", "Log out", class_="quiet"), method="post", action="/logout"))
    skip = el("a", "Skip to content", href="#content", class_="skip")
    top = el("header", el("nav", trail, aria_label="Where you are"), el("div", right, class_="right"))
    body = el("body", skip, top, el("main", children, id="content", tabindex="-1"))
    return "<!doctype html>\n" + el("html", head, body, lang="en")


def live(key: str, *children: Child, tag: str = "div", **attributes: Attribute) -> Markup:
    """A part that the script brings up to date. `key` is unique on the page."""
    return el(tag, children, data_live=key, **attributes)


def badge(state: str) -> Markup:
    """A state as a coloured word."""
    return el("span", state, class_=f"badge {TONES.get(state, 'calm')}")


def link(name: str, *more: str) -> str:
    """The address of a pipeline's page; `more` is one of its pages."""
    return "/" + "/".join([*(more or ("pipelines",)), quote(name, safe="")])


def tile(label: str, value: Child, about: Child = "", tone: str = "") -> Markup:
    """A number with its name."""
    return el(
        "div", el("dt", label), el("dd", value, class_=tone or None), el("dd", about, class_="about"), class_="tile"
    )


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Markup], *, numbers: Sequence[int] = (), cards: bool = False
) -> Markup:
    """A table; `numbers` are the columns that hold numbers. With `cards` its rows are cards on a phone, for which their
    cells need labels."""
    head = el("tr", (el("th", h, scope="col", class_="n" if i in numbers else None) for i, h in enumerate(heads)))
    body = list(rows)
    if not body:
        return el("p", "None.", class_="empty")
    return el(
        "div", el(
            "table", el("caption", caption, class_="unseen"), el("thead", head), el("tbody", body),
            class_="cards" if cards else None,
        ),
        class_="wide", role="region", aria_label=caption, tabindex="0",
    )  # fmt: skip


def row(*cells: Child, numbers: Sequence[int] = (), head: bool = True, labels: Sequence[str] = ()) -> Markup:
    """A row; its first cell is its head. `labels` are the heads of the columns, where the table has `cards`."""
    first = el("th", cells[0], scope="row") if head else el("td", cells[0])
    rest = (
        el("td", cell, class_="n" if i in numbers else None, data_label=labels[i] if labels else None)
        for i, cell in enumerate(cells[1:], 1)
    )
    return el("tr", first, rest)


def action(
    visitor: Visitor, name: str, what: str, label: str, *fields: Child, ask: str = "", about: str = ""
) -> Markup:
    """A button that does something to a pipeline; the script asks `ask` before. `about` is said with its label to those
    who do not see where it is."""
    hidden = (
        el("input", type="hidden", name=key, value=value)
        for key, value in (("csrf", visitor.form_token), ("action", what))
    )
    named = f"{label} {about}" if about else None
    button = el("button", label, type="submit", class_=f"do {what}", aria_label=named)
    return el("form", hidden, fields, button, method="post", action=link(name, "actions"), data_ask=ask or None)


def error_card(error: Error) -> Markup:
    """An error: what, where, the next step."""
    head = el("p", el("strong", error.kind), " ", when(error.at_s), el("em", "retryable") if error.retryable else None)
    where = el("p", error.where, class_="where") if error.where else None
    hint = el("p", el("b", "Next step: "), error.hint, class_="hint") if error.hint else None
    return el("article", head, where, el("p", error.message), hint, class_="card bad")
