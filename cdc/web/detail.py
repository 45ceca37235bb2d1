"""The page of one pipeline: the way of its data, plots, batches, tables, errors, runs, and what can be done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from cdc.serve.control import LogLine, PipelineView
from cdc.status.model import Status, Table
from cdc.web.drawing import data_path, legend, phase_bar, plot, rate_axis
from cdc.web.html import Child, Markup, el
from cdc.web.layout import Visitor, action, badge, error_card, link, live, page, row, table, tile
from cdc.web.verifying import Compared
from cdc.web.views import Shown
from cdc.web.words import ago, count, lag, percent, rate, seconds, size_text, when

PAGE_ROWS = 25
"""Tables on one page."""
_BATCHES = 20
_ERRORS = 5


def detail(
    shown: Shown,
    visitor: Visitor,
    query: str,
    number: int,
    log: Sequence[LogLine],
    said: str = "",
    verified: Compared | None = None,
) -> str:
    """The whole page. `query` and `number` say which tables; `said` is what was asked for just now."""
    view, status = shown.view, shown.status
    parts: list[Child] = [
        el("div", el("h1", view.name), live("state", badge(view.state), _timing(view)), class_="title"),
        el("p", said, class_="said", role="status") if said else None,
        _actions(view, visitor),
        live("problems", _problems(shown, visitor)),
        live("path", _path(shown)),
    ]
    if status is not None:
        parts += [
            live("tiles", _tiles(shown, status), tag="dl", class_="tiles"),
            el("div", _plots(status), class_="two"),
        ]
    parts.append(live("verify", _verified(verified)))
    errors = [error_card(error) for error in shown.errors[:_ERRORS]]
    parts.append(el("section", el("h2", "Last errors"), live("errors", errors or _none())))
    if status is not None:
        parts += [
            _tables(view.name, status, query, number),
            el("section", el("h2", "Batches"), legend(), live("batches", _batches(status))),
            el("section", el("h2", "Schema changes"), live("changes", _changes(status)), _more(view.name)),
        ]
    parts += [
        live("notices", _notices(status)),
        el("section", el("h2", "Runs"), live("runs", _runs(view))),
        el("section", el("h2", "Log"), live("log", _log(log))),
    ]
    return page(view.name, visitor, parts, crumbs=[(view.name, link(view.name))])


def _timing(view: PipelineView) -> Child:
    """When it runs, beside its state."""
    next_run = None if view.next_run_s is None else f"next run {ago(view.next_run_s)}"
    parts = [view.schedule or None, next_run]
    told = ", ".join(part for part in parts if part)
    return [" ", el("span", told, class_="dim")] if told else None


def _none() -> Markup:
    return el("p", "None.", class_="empty")


def _more(name: str) -> Markup:
    return el("p", el("a", "Schemas of all tables, with their history", href=link(name, "schemas")))


def _actions(view: PipelineView, visitor: Visitor) -> Child:
    plan = el("a", "Show plan", href=link(view.name, "plan"), class_="button")
    schemas = el("a", "Schemas", href=link(view.name, "schemas"), class_="button")
    if visitor.read_only:
        return el("div", schemas, class_="actions")
    name = view.name

    def field(label: str) -> Markup:
        return el("input", name="table", required=True, placeholder="database.table", aria_label=label)

    return el(
        "div",
        action(visitor, name, "start", "Start"),
        action(visitor, name, "stop", "Stop", ask=f"Stop {name} after its running batch?"),
        action(visitor, name, "drain", "Drain and stop", ask=f"Stop {name} once all of the log is committed?"),
        action(visitor, name, "savepoint", "Savepoint"),
        action(visitor, name, "resync", "Resync", field("Table to copy anew"), ask="Copy this table anew?"),
        action(visitor, name, "pause", "Pause", field("Table to pause"), ask="Leave this table as it is in the sink?"),
        action(visitor, name, "verify", "Verify"),
        plan,
        schemas,
        class_="actions", role="group", aria_label="Actions",
    )  # fmt: skip


def _problems(shown: Shown, visitor: Visitor) -> list[Child]:
    found = [el("p", problem) for problem in shown.view.file_errors]
    cards: list[Child] = [el("article", el("strong", "The pipeline file"), found, class_="card bad")] if found else []
    if shown.unreadable:
        cards.append(el("article", shown.unreadable, class_="card bad"))
    if shown.status is not None and (shown.status.paused or shown.status.resumed):
        cards.append(_held(shown.view.name, shown.status, visitor))
    if shown.live is not None and shown.live.note:
        cards.append(el("article", el("strong", "Waiting: "), shown.live.note, class_="card warn"))
    return cards


def _held(name: str, status: Status, visitor: Visitor) -> Markup:
    """Tables that are paused, with what ends that."""

    def resume(table: str) -> Child:
        hidden = el("input", type="hidden", name="table", value=table)
        return None if visitor.read_only else action(visitor, name, "resume", f"Resume {table}", hidden)

    lines = [el("p", el("strong", "Paused: "), el("code", table), " ", resume(table)) for table in status.paused]
    lines += [el("p", el("strong", "Resumed: "), el("code", each), " is copied anew") for each in status.resumed]
    return el("article", lines, class_="card warn")


def _verified(found: Compared | None) -> Child:
    if found is None:
        return None
    tone = {"running": "busy", "equal": "good"}.get(found.state, "bad")
    ended = found.ended_s or time.time()
    about = f"{found.summary} took {seconds(ended - found.started_s)}, "
    head = el("p", el("span", found.state, class_=f"badge {tone}"), " ", about, when(found.started_s))
    lines = el("pre", "\n".join(found.lines[-_BATCHES:]), tabindex="0", aria_label="Tables") if found.lines else None
    return el("section", el("h2", "Verify"), head, lines, error_card(found.error) if found.error else None)


def _path(shown: Shown) -> Markup:
    view, status, live_now = shown.view, shown.status, shown.live
    read = [] if status is None else [f"{count(status.read)} changes read"]
    wrote = [] if status is None else [f"{count(status.totals.rows)} rows written"]
    transform, route = (_rules(view.spec, key) for key in ("transform", "route"))
    stages = [
        ("source", view.source, [*read, rate(live_now.read_per_s) if live_now else "not running"]),
        ("transform", transform[0], transform[1]),
        ("route", route[0], route[1]),
        ("sink", view.sink, [*wrote, rate(live_now.written_per_s) if live_now else "not running"]),
    ]
    moving = live_now is not None and live_now.written_per_s > 0
    drawn = data_path(stages, moving=moving, label=f"From {view.source} over transform and route to {view.sink}")
    return el("div", drawn, class_="scroll")


def _rules(spec: Mapping[str, object], key: str) -> tuple[str, list[str]]:
    rules = spec.get(key)
    if not isinstance(rules, list | tuple) or not rules:
        return ("as it is", ["no rules"]) if key == "transform" else ("same names", ["no rules"])
    shown = [str(rule.get("source-table", "")) for rule in rules if isinstance(rule, Mapping)]
    return f"{len(rules)} rule{'' if len(rules) == 1 else 's'}", [name for name in shown if name]


def _tiles(shown: Shown, status: Status) -> list[Child]:
    behind, totals, live_now = status.lag, status.totals, shown.live
    waits = [] if behind.bytes is None else [size_text(behind.bytes)]
    waits += [] if behind.transactions is None else [f"{behind.transactions:,} transactions"]
    schema = status.schema
    return [
        tile("Lag", lag(shown.lag_s), f"{', '.join(waits)} waiting" if waits else "behind the source"),
        tile("Rows per second", count(shown.written_per_s), f"read {rate(live_now.read_per_s if live_now else 0.0)}"),
        tile(
            "Rows, this run", count(totals.rows),
            f"{count(totals.inserts)} inserts, {count(totals.updates)} updates, {count(totals.deletes)} deletes",
        ),
        tile("Batches", count(status.batches_total), _last_batch(status)),
        tile(
            "Schema changes", count(schema.applied),
            f"{schema.held_back} held back, {schema.refused} refused, {schema.failed} failed",
            "bad" if schema.failed else "",
        ),
        tile("Dead letters", count(status.dead_letters), "rows of this run", "warn" if status.dead_letters else ""),
        tile("Starts", count(status.runs), f"{status.restarts} after a failure"),
    ]  # fmt: skip


def _last_batch(status: Status) -> str:
    if not status.batches:
        return "none yet"
    last = status.batches[-1]
    return f"last took {seconds(last.duration_s)}, {ago(last.committed_s)}"


def _plots(status: Status) -> list[Child]:
    now = time.time()
    behind = plot(status.points, [("lag", lambda point: point.lag_s)], "Lag", lag, now)
    lines = [("read", lambda p: p.read_per_s), ("written", lambda p: p.written_per_s)]
    through = plot(status.points, lines, "Rows per second", rate_axis, now)
    keys = el("span", el("i", class_="key read"), "read", el("i", class_="key written"), "written", class_="legend")
    return [
        el("section", el("h2", "Lag"), live("plot-lag", behind)),
        el("section", el("h2", "Rows per second ", keys), live("plot-rows", through)),
    ]


def _tables(name: str, status: Status, query: str, number: int) -> Markup:
    found = [each for each in status.tables if query.casefold() in each.table.casefold()]
    last = max(0, (len(found) - 1) // PAGE_ROWS)
    number = min(max(0, number), last)
    shown = found[number * PAGE_ROWS : (number + 1) * PAGE_ROWS]
    field = el("input", type="search", name="q", value=query, placeholder="Filter tables", aria_label="Filter tables")
    form = el("form", field, el("button", "Filter"), method="get", action=link(name), class_="bar")
    heads = ("Table", "Read", "Written", "Now", "Inserts", "Updates", "Deletes", "Last change", "Copy")
    numbers = (1, 2, 3, 4, 5, 6)
    rows = [_table_row(each, numbers) for each in shown]
    return el(
        "section",
        el("h2", f"Tables ({len(status.tables):,})"),
        form,
        live("tables", table("Tables", heads, rows, numbers=numbers)),
        _pager(query, number, last) if last else None,
    )


def _table_row(each: Table, numbers: Sequence[int]) -> Markup:
    w = each.written
    return row(
        each.table, count(each.read), count(w.rows), rate(each.written_per_s), count(w.inserts), count(w.updates),
        count(w.deletes), when(each.last_change_s), _copy(each), numbers=numbers,
    )  # fmt: skip


def _copy(each: Table) -> Child:
    copy = each.copy
    if copy is None:
        return "–"
    done = copy.state == "done"
    share = 100 if done else percent(copy.rows, copy.estimated_rows)
    eta = f", {seconds(copy.eta_s)} left" if copy.eta_s else ""
    said = f"{copy.state}, {count(copy.rows)} rows" if done else f"{copy.state}, {share} %{eta}"
    bar = el("progress", value=share, max=100, aria_label=f"{each.table}: {share} percent copied")
    return [bar, " ", el("span", said, title=copy.why or None), el("small", copy.why) if copy.why else None]


def _pager(query: str, number: int, last: int) -> Markup:
    def to(page_number: int, label: str) -> Markup:
        if not 0 <= page_number <= last:
            return el("span", label, class_="dim")
        return el("a", label, href="?" + urlencode({"q": query, "page": page_number}))

    return el(
        "nav", to(number - 1, "Previous"), f"page {number + 1} of {last + 1}", to(number + 1, "Next"), class_="pager",
        aria_label="Pages of tables",
    )  # fmt: skip


def _batches(status: Status) -> Markup:
    numbers = (1, 2, 3, 5)
    rows = [
        row(
            each.batch, count(each.rows), count(each.tables), seconds(each.duration_s),
            phase_bar(each.phases, each.duration_s), lag(each.lag_s), when(each.committed_s), numbers=numbers,
        )
        for each in reversed(status.batches[-_BATCHES:])
    ]  # fmt: skip
    return table(
        "Last batches", ("Batch", "Rows", "Tables", "Took", "Where the time went", "Lag", "Committed"), rows,
        numbers=numbers,
    )  # fmt: skip


def _changes(status: Status) -> Markup:
    tones = {"applied": "good", "held-back": "warn", "refused": "warn", "failed": "bad"}
    rows = [
        row(each.table, each.change, el("span", each.outcome, class_=f"badge {tones.get(each.outcome, 'calm')}"),
            each.batch if each.batch >= 0 else "–", when(each.at_s), numbers=(3,))
        for each in reversed(status.schema_changes[-_BATCHES:])
    ]  # fmt: skip
    return table("Schema changes", ("Table", "Change", "Outcome", "Batch", "When"), rows, numbers=(3,))


def _notices(status: Status | None) -> Child:
    if status is None or not status.notices:
        return None
    shown = [el("li", when(each.at_s), " ", each.text) for each in reversed(status.notices[-_BATCHES:])]
    return el("section", el("h2", "Notices"), el("ul", shown, class_="notices"))


def _runs(view: PipelineView) -> Markup:
    rows = [
        row(when(each.started_s), each.why, each.outcome or "under way", count(each.rows), count(each.batches),
            seconds((each.ended_s or time.time()) - each.started_s), each.error.message if each.error else "",
            numbers=(3, 4, 5))
        for each in view.runs[:_BATCHES]
    ]  # fmt: skip
    heads = ("Began", "By", "Outcome", "Rows", "Batches", "Took", "Error")
    return table("Runs", heads, rows, numbers=(3, 4, 5))


def _log(lines: Sequence[LogLine]) -> Markup:
    if not lines:
        return _none()
    shown = [
        el("li", when(each.at_s), " ", el("b", each.level, class_=each.level), " ", each.message, _fields(each.fields))
        for each in reversed(lines)
    ]
    return el("ol", shown, class_="log", tabindex="0", aria_label="Log, newest first")


def _fields(fields: Mapping[str, object]) -> str:
    return "".join(f" {name}={value}" for name, value in fields.items())
