"""Prepares the values of pages; the templates show them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from cdc.serve.control import RUNNING, LogLine
from cdc.status.model import StatusDocument, TableStatus
from cdc.status.schemas import SchemaVersion
from cdc.status.text import size_text
from cdc.web.file_text import file_text
from cdc.web.plots import RANGES, plots
from cdc.web.templating import Visitor, link, render
from cdc.web.verifying import VerifyProgress
from cdc.web.views import Shown
from cdc.web.words import ago, count, percent, rate

PAGE_ROWS = 25
"""Tables per page of a pipeline."""
_MOST_LINES = 20
"""Maximum number of batches, schema changes, runs and so on, on the page of a pipeline."""
_MOST_ERRORS = 5
_MOST_TABLES = 200
"""Maximum number of tables in the list of schemas; a filter finds the others."""


def overview(pipelines: Sequence[Shown], visitor: Visitor, message: str = "") -> str:
    """Render all pipelines in one table, with totals; those that need attention first."""
    lags = [(shown.lag_s, shown.view.name) for shown in pipelines if shown.lag_s is not None]
    states = [shown.view.state for shown in pipelines]
    return render(
        "overview.html", visitor, message=message, status_line=_status_line,
        pipelines=sorted(pipelines, key=lambda shown: (not shown.view.attention, shown.view.name)),
        states=sorted(set(states)), running=states.count("running"),
        bad=sum(bool(shown.view.attention) for shown in pipelines), most_lag=max(lags, default=(None, "")),
        per_s=sum(shown.written_per_s for shown in pipelines),
    )  # fmt: skip


def _status_line(shown: Shown) -> tuple[str, str, str | None]:
    """Return the latest information about a pipeline: text, tone, and details; None for nothing more to show."""
    view, status = shown.view, shown.status
    folder = f"{Path(view.file).parent}/"
    if view.file_errors:
        return view.file_errors[0].removeprefix(folder), "bad", ""
    error = view.last_error
    if error is not None and (view.state in ("failed", "waiting") or view.attention):
        where = f"{error.where.removeprefix(folder)}: " if error.where else ""
        return f"{where}{error.message}", "bad", f" (next step: {error.hint})" if error.hint else ""
    notes = [] if status is None else _copies(status)
    if status is not None and status.paused:
        notes.append(f"paused: {', '.join(status.paused[:3])}{' ...' if len(status.paused) > 3 else ''}")
    if notes:
        return "; ".join(notes), "", ""
    if view.next_run_s is not None:
        return f"next run {ago(view.next_run_s)}", "", None
    if status is not None and status.note:
        return status.note, "", ""
    batches = () if status is None else status.batches
    return f"committed {ago(batches[-1].committed_s)}" if batches else "–", "", None


def _copies(status: StatusDocument) -> list[str]:
    """Describe the tables that are being copied; empty for none."""
    copies = [table.copy for table in status.tables if table.copy is not None and table.copy.state != "done"]
    done, total = sum(copy.rows for copy in copies), sum(copy.estimated_rows for copy in copies)
    return [f"{len(copies)} copying, {percent(done, total)} %"] if copies else []


@dataclass(frozen=True, slots=True)
class TablesPage:
    """A page of a pipeline's tables, counted from 0, and the number of the last page."""

    shown: Sequence[TableStatus]
    number: int
    last: int

    @classmethod
    def of(cls, status: StatusDocument, query: str, number: int) -> TablesPage:
        """Return the page with that number, of the tables with `query` in their names."""
        found = [each for each in status.tables if query.casefold() in each.table.casefold()]
        last = max(0, (len(found) - 1) // PAGE_ROWS)
        number = min(max(0, number), last)
        return cls(found[number * PAGE_ROWS : (number + 1) * PAGE_ROWS], number, last)


def pipeline(
    shown: Shown,
    visitor: Visitor,
    query: str,
    number: int,
    log: Sequence[LogLine],
    message: str = "",
    verified: VerifyProgress | None = None,
    span: str = "20min",
) -> str:
    """Render one pipeline. `query` and `number` select the tables, `span` the range of the plots; `message` is the
    result of an action. The error of a pipeline that does not run or needs attention is shown first."""
    view, status = shown.view, shown.status
    on_top = int(view.state in ("failed", "waiting") or bool(view.attention))
    return render(
        "pipeline.html", visitor, [(view.name, link(view.name))],
        shown=shown, view=view, status=status, message=message, running=view.state in RUNNING, log=log,
        on_top=shown.errors[:on_top], errors=shown.errors[on_top:_MOST_ERRORS], most=_MOST_LINES, now_s=time.time(),
        stages=_stages(shown), waiting="" if status is None else _waiting(status), ranges=RANGES, span=span,
        drawn=None if status is None else plots(status, Path(view.state_dir), span), percent=percent,
        tables=None if status is None else TablesPage.of(status, query, number), query=query, verified=verified,
        text=file_text(Path(view.file)),
    )  # fmt: skip


def _stages(shown: Shown) -> list[tuple[str, str, list[str]]]:
    """Return the stages of the data flow: kind, name, and lines about each."""
    view, status = shown.view, shown.status
    read = [] if status is None else [f"{count(status.read)} changes read"]
    wrote = [] if status is None else [f"{count(status.totals.rows)} rows written"]
    return [
        ("source", view.source, [*read, rate(shown.read_per_s) if shown.live else "not running"]),
        ("transform", *_rules(view.spec.get("transform"), "as it is")),
        ("route", *_rules(view.spec.get("route"), "same names")),
        ("sink", view.sink, [*wrote, rate(shown.written_per_s) if shown.live else "not running"]),
    ]


def _rules(rules: object, without: str) -> tuple[str, list[str]]:
    if not isinstance(rules, list | tuple) or not rules:
        return without, ["no rules"]
    shown = [str(rule.get("source-table", "")) for rule in rules if isinstance(rule, Mapping)]
    return f"{len(rules)} rule{'' if len(rules) == 1 else 's'}", [name for name in shown if name]


def _waiting(status: StatusDocument) -> str:
    lag = status.lag
    waits = [] if lag.bytes is None else [size_text(lag.bytes)]
    waits += [] if lag.transactions is None else [f"{lag.transactions:,} transactions"]
    return f"{', '.join(waits)} waiting" if waits else "behind the source"


def schemas(name: str, visitor: Visitor, history: Mapping[str, Sequence[SchemaVersion]], query: str) -> str:
    """Render all sink tables with their number of versions."""
    found = [each for each in history if query.casefold() in each.casefold()]
    crumbs = [(name, link(name)), ("schemas", link(name, "schemas"))]
    return render(
        "schemas.html", visitor, crumbs, name=name, history=history, found=found, query=query, most=_MOST_TABLES
    )


def schema(name: str, visitor: Visitor, versions: Sequence[SchemaVersion], chosen: str) -> str:
    """Render the versions of one sink table, newest first, each with the columns of the previous one by name."""
    columns = [None, *({column.name: column for column in version.columns} for version in versions)]
    pairs = list(zip(versions, columns, strict=False))[::-1]
    crumbs = [
        (name, link(name)),
        ("schemas", link(name, "schemas")),
        (chosen, f"{link(name, 'schemas')}?{urlencode({'table': chosen})}"),
    ]
    return render("schema.html", visitor, crumbs, name=name, chosen=chosen, versions=pairs)
