"""The page of all pipelines: a table that the script filters and sorts, and what can be done to several at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cdc.status.model import StatusDocument
from cdc.web.drawing import spark
from cdc.web.html import Child, Markup, el, fill
from cdc.web.layout import Visitor, badge, link, live, page, tile
from cdc.web.views import Shown
from cdc.web.words import ago, count, lag, percent, rate

_HEADS = (
    ("Pipeline", "name", ""), ("State", "state", ""), ("Path", "", "path"), ("Lag", "lag", "n"),
    ("Written", "rate", "n"), ("", "", "sparkline"), ("Rows", "rows", "n"), ("Tables", "tables", "n"),
    ("Last", "", "last"),
)  # fmt: skip
"""Heads of columns, the key that the script sorts by, and the class."""

_ROW = (
    '<tr data-live="p-{name}" data-state="{state}" data-attention="{needs}" data-lag="{lag_s}" data-rate="{per_s}"'
    ' data-rows="{rows}" data-tables="{tables}">{choose}<th scope="row"><a href="{href}">{name}</a></th>'
    '<td class="state">{badge}</td><td class="dim path">{path}</td><td class="n lag">{lag}</td>'
    '<td class="n rate">{rate}</td><td class="sparkline">{spark}</td><td class="n rows">{row_count}</td>'
    '<td class="n tables">{table_count}</td><td class="dim last">{last}</td></tr>'
)
_CHOOSE = (
    '<td class="choose"><input type="checkbox" name="name" value="{name}" form="bulk" aria-label="Choose {name}"'
    "{disabled}></td>"
)


def overview(pipelines: Sequence[Shown], visitor: Visitor, message: str = "") -> str:
    """All pipelines in one table, and their sums. What needs attention comes first."""
    ordered = sorted(pipelines, key=lambda shown: (not shown.view.attention, shown.view.name))
    return page(
        "Pipelines",
        visitor,
        el("h1", "Pipelines"),
        el("p", message, class_="said", role="status") if message else None,
        live("sums", _sums(pipelines), tag="dl", class_="tiles"),
        _tools(visitor, pipelines),
        _table(ordered, visitor),
    )


def _sums(pipelines: Sequence[Shown]) -> list[Child]:
    bad = sum(bool(shown.view.attention) for shown in pipelines)
    lags = [(shown.lag_s, shown.view.name) for shown in pipelines if shown.lag_s is not None]
    most, whose = max(lags, default=(None, ""))
    running = sum(shown.view.state == "running" for shown in pipelines)
    return [
        tile("Pipelines", count(len(pipelines)), f"{running} running"),
        tile("Need attention", count(bad), "failed, failing or with an invalid file", "bad" if bad else "good"),
        tile("Largest lag", lag(most), whose),
        tile("Rows per second", count(sum(shown.written_per_s for shown in pipelines)), "written, all pipelines"),
    ]


def _tools(visitor: Visitor, pipelines: Sequence[Shown]) -> Markup:
    """Filters, and buttons for the pipelines that are chosen."""
    field = el(
        "input", type="search", id="filter", placeholder="Filter by name", aria_label="Filter pipelines by name",
        autocomplete="off", data_filter="pipelines",
    )  # fmt: skip
    states = Counter(shown.view.state for shown in pipelines)
    options = [el("option", "All states", value="")]
    options.append(el("option", "Need attention", value="attention"))
    options += [el("option", state, value=state) for state in sorted(states)]
    state = el("select", options, id="state", aria_label="Filter pipelines by state")
    lags = [("Any lag", ""), ("Lag over 10 s", "10"), ("Lag over 1 min", "60"), ("Lag over 10 min", "600")]
    least = el("select", [el("option", name, value=s) for name, s in lags], id="least-lag", aria_label="Filter by lag")
    bulk: Child = None
    if not visitor.read_only:
        bulk = el(
            "form",
            el("input", type="hidden", name="csrf", value=visitor.form_token),
            el("output", "none chosen", id="chosen", class_="dim"),
            el("button", "Start", name="action", value="start"),
            el("button", "Stop", name="action", value="stop", class_="do stop"),
            method="post", action="/bulk", id="bulk", class_="bulk", role="group", aria_label="Chosen pipelines",
            data_ask="Do this to the chosen pipelines?",
        )  # fmt: skip
    return el("div", field, state, least, bulk, class_="bar tools")


def _table(pipelines: Sequence[Shown], visitor: Visitor) -> Markup:
    if not pipelines:
        return el("p", "No pipelines in the folder yet: put a pipeline file there.", class_="empty")
    heads = [_head(*each) for each in _HEADS]
    if not visitor.read_only:
        every = el("input", type="checkbox", id="every", aria_label="Choose all pipelines that are shown")
        heads.insert(0, el("th", every, scope="col", class_="choose"))
    body = el("tbody", (_row(shown, visitor) for shown in pipelines), id="pipelines")
    caption = el("caption", "All pipelines", class_="unseen")
    inner = el("table", caption, el("thead", el("tr", heads)), body, class_="pipelines")
    return el("div", inner, class_="wide", role="region", aria_label="All pipelines", tabindex="0")


def _head(name: str, key: str, class_: str) -> Markup:
    label: Child = el("button", name, type="button", class_="sort", data_sort=key) if key else name
    return el("th", label, scope="col", class_=class_ or None, aria_sort="none" if key else None)


def _row(shown: Shown, visitor: Visitor) -> Markup:
    view, status = shown.view, shown.status
    rows, tables = (status.totals.rows, len(status.tables)) if status else (None, None)
    disabled = " disabled" if view.state == "invalid" else ""
    return fill(
        _ROW,
        choose="" if visitor.read_only else fill(_CHOOSE, name=view.name, disabled=disabled),
        name=view.name, href=link(view.name), state=view.state, needs="1" if view.attention else "",
        badge=[badge(view.state), _attention(shown)], path=f"{view.source} → {view.sink}" if view.source else "–",
        lag_s=-1.0 if shown.lag_s is None else shown.lag_s, lag=lag(shown.lag_s),
        per_s=shown.written_per_s, rate=rate(shown.written_per_s) if shown.live else "–",
        spark=spark(status.points, "rows written over time") if status and status.points else None,
        rows=rows or 0, row_count="–" if rows is None else count(rows),
        tables=tables or 0, table_count="–" if tables is None else count(tables), last=_last(shown),
    )  # fmt: skip


def _attention(shown: Shown) -> Child:
    view = shown.view
    if not view.attention or view.state in ("invalid", "failed"):  # says it already
        return None
    return [" ", el("span", view.attention, class_="badge bad")]


def _copies(status: StatusDocument) -> list[str]:
    """The tables that are being copied, as a text; none where none is."""
    copies = [table.copy for table in status.tables if table.copy is not None and table.copy.state != "done"]
    done, whole = sum(copy.rows for copy in copies), sum(copy.estimated_rows for copy in copies)
    return [f"{len(copies)} copying, {percent(done, whole)} %"] if copies else []


def _last(shown: Shown) -> Child:
    view, status = shown.view, shown.status
    if view.file_errors:
        return _whole(view.file_errors[0], "bad")
    if view.state in ("failed", "waiting", "invalid") and view.last_error is not None:
        hint = f" (next step: {view.last_error.hint})" if view.last_error.hint else ""
        return _whole(view.last_error.message, "bad", hint)
    notes = [] if status is None else _copies(status)
    if status is not None and status.paused:
        notes.append(f"paused: {', '.join(status.paused[:3])}{' ...' if len(status.paused) > 3 else ''}")
    if notes:
        return _whole("; ".join(notes))
    if view.next_run_s is not None:
        return f"next run {ago(view.next_run_s)}"
    if status is not None and status.note:
        return _whole(status.note)
    return f"committed {ago(status.batches[-1].committed_s)}" if status is not None and status.batches else "–"


def _whole(text: str, class_: str | None = None, more: str = "") -> Markup:
    """A text that is cut off where it is long, with all of it on it."""
    return el("span", text, class_=class_, title=text + more)
