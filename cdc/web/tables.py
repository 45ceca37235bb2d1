"""The tables of one pipeline, in pages, with what can be done to each."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from cdc.status.model import StatusDocument, TableStatus
from cdc.web.html import Child, Markup, el
from cdc.web.layout import Visitor, action, link, live, row, table
from cdc.web.words import about, count, percent, rate, when

PAGE_ROWS = 25
"""Tables on one page."""
_NUMBERS = (1, 2, 3, 4, 5, 6)


def tables(name: str, status: StatusDocument, visitor: Visitor, query: str, number: int, span: str) -> Markup:
    """A page of them. `query` filters names, `span` is the range of the plots, which links keep."""
    found = [each for each in status.tables if query.casefold() in each.table.casefold()]
    last = max(0, (len(found) - 1) // PAGE_ROWS)
    number = min(max(0, number), last)
    shown = found[number * PAGE_ROWS : (number + 1) * PAGE_ROWS]
    field = el("input", type="search", name="q", value=query, placeholder="Filter tables", aria_label="Filter tables")
    kept = el("input", type="hidden", name="range", value=span)
    form = el("form", field, kept, el("button", "Filter"), method="get", action=link(name), class_="bar")
    heads = ["Table", "Read", "Written", "Now", "Inserts", "Updates", "Deletes", "Last change", "Copy"]
    heads += [] if visitor.read_only else ["Actions"]
    rows = [_row(name, each, status, visitor, heads) for each in shown]
    return el(
        "section",
        el("h2", f"Tables ({len(status.tables):,})"),
        form,
        live("tables", table("Tables", heads, rows, numbers=_NUMBERS, cards=True)),
        _pager(query, number, last, span) if last else None,
    )


def _row(name: str, each: TableStatus, status: StatusDocument, visitor: Visitor, heads: Sequence[str]) -> Markup:
    w = each.written
    cells: list[Child] = [
        each.table, count(each.read), count(w.rows), rate(each.written_per_s), count(w.inserts), count(w.updates),
        count(w.deletes), when(each.last_change_s), _copy(each),
    ]  # fmt: skip
    if not visitor.read_only:
        cells.append(_actions(name, each, status, visitor))
    return row(*cells, numbers=_NUMBERS, labels=heads)


def _actions(name: str, each: TableStatus, status: StatusDocument, visitor: Visitor) -> Child:
    """The actions of a table of the source; tables that only the sink has get none, as they cannot be named."""
    if not (each.read or each.copy is not None or each.table in status.paused):
        return None
    hidden = el("input", type="hidden", name="table", value=each.table)
    if each.table in status.paused:
        return action(visitor, name, "resume", "Resume", hidden, about=each.table)
    return el(
        "div",
        action(visitor, name, "resync", "Resync", hidden, ask=f"Re-snapshot {each.table}?", about=each.table),
        action(
            visitor, name, "pause", "Pause", hidden, ask=f"Leave {each.table} as it is in the sink?", about=each.table
        ),
        class_="actions",
    )  # fmt: skip


def _copy(each: TableStatus) -> Child:
    copy = each.copy
    if copy is None:
        return None
    done = copy.state == "done"
    share = 100 if done else percent(copy.rows, copy.estimated_rows)
    eta = f", {about(copy.eta_s)} left" if copy.eta_s else ""
    state_text = f"{copy.state}, {count(copy.rows)} rows" if done else f"{copy.state}, {share} %{eta}"
    bar = el("progress", value=share, max=100, aria_label=f"{each.table}: {share} percent copied")
    return [bar, " ", el("span", state_text, title=copy.why or None), el("small", copy.why) if copy.why else None]


def _pager(query: str, number: int, last: int, span: str) -> Markup:
    def to(page_number: int, label: str) -> Markup:
        if not 0 <= page_number <= last:
            return el("span", label, class_="dim")
        return el("a", label, href="?" + urlencode({"q": query, "page": page_number, "range": span}))

    return el(
        "nav", to(number - 1, "Previous"), f"page {number + 1} of {last + 1}", to(number + 1, "Next"), class_="pager",
        aria_label="Pages of tables",
    )  # fmt: skip
