"""The page of all pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.web.drawing import spark
from cdc.web.html import Child, Markup, el
from cdc.web.layout import Visitor, badge, link, live, page, tile
from cdc.web.views import Shown
from cdc.web.words import ago, count, lag, percent, rate

_HEADS = ("Pipeline", "State", "Path", "Lag", "Written", "", "Rows", "Tables", "Last")


def overview(pipelines: Sequence[Shown], visitor: Visitor) -> str:
    """All pipelines in one table, and their sums. What asks for attention comes first."""
    ordered = sorted(pipelines, key=lambda shown: (not shown.view.attention, shown.view.name))
    field = el(
        "input", type="search", id="filter", placeholder="Filter by name", aria_label="Filter pipelines by name",
        autocomplete="off", data_filter="pipelines",
    )  # fmt: skip
    return page(
        "Pipelines",
        visitor,
        el("h1", "Pipelines"),
        live("sums", _sums(pipelines), tag="dl", class_="tiles"),
        el("div", field, class_="bar"),
        _table(ordered),
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


def _table(pipelines: Sequence[Shown]) -> Markup:
    if not pipelines:
        return el("p", "No pipelines in the folder yet: put a pipeline file there.", class_="empty")
    heads = el(
        "tr", (el("th", head, scope="col", class_="n" if i in (3, 4, 6, 7) else None) for i, head in enumerate(_HEADS))
    )
    body = el("tbody", (_row(shown) for shown in pipelines), id="pipelines")
    caption = el("caption", "All pipelines", class_="unseen")
    inner = el("table", caption, el("thead", heads), body, class_="pipelines")
    return el("div", inner, class_="wide", role="region", aria_label="All pipelines", tabindex="0")


def _row(shown: Shown) -> Markup:
    view, status = shown.view, shown.status
    name = el("th", el("a", view.name, href=link(view.name)), scope="row")
    cells = [
        el("td", badge(view.state)),
        el("td", f"{view.source} → {view.sink}" if view.source else "–", class_="dim path"),
        el("td", lag(shown.lag_s), class_="n"),
        el("td", rate(shown.written_per_s) if shown.live else "–", class_="n"),
        el("td", spark(status.points, "rows written over time") if status and status.points else None),
        el("td", count(status.totals.rows) if status else "–", class_="n"),
        el("td", _tables(shown), class_="n"),
        el("td", _last(shown), class_="dim last"),
    ]
    return el("tr", name, cells, data_live=f"p-{view.name}")


def _tables(shown: Shown) -> Child:
    status = shown.status
    if status is None:
        return "–"
    copies = [table.copy for table in status.tables if table.copy is not None and table.copy.state != "done"]
    if not copies:
        return count(len(status.tables))
    done, whole = sum(copy.rows for copy in copies), sum(copy.estimated_rows for copy in copies)
    return f"{count(len(status.tables))} ({len(copies)} copying, {percent(done, whole)} %)"


def _last(shown: Shown) -> Child:
    view, status = shown.view, shown.status
    if view.file_errors:
        return el("span", view.file_errors[0], class_="bad")
    if view.state in ("failed", "waiting", "invalid") and view.last_error is not None:
        return el("span", view.last_error.message, class_="bad", title=view.last_error.hint or None)
    if status is not None and status.paused:
        return f"paused: {', '.join(status.paused[:3])}{' ...' if len(status.paused) > 3 else ''}"
    if view.next_run_s is not None:
        return f"next run {ago(view.next_run_s)}"
    if status is not None and status.note:
        return status.note
    return f"committed {ago(status.batches[-1].committed_s)}" if status is not None and status.batches else "–"
