"""The page of one pipeline: the way of its data, plots, batches, tables, errors, runs, and what can be done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdc.serve.control import LogLine, PipelineView, RunTotals
from cdc.status.model import StatusDocument
from cdc.web.drawing import data_path, legend, phase_bar
from cdc.web.file_text import file_text
from cdc.web.html import Child, Markup, el
from cdc.web.layout import RUNNING, Visitor, action, badge, error_card, link, live, page, row, table, tile
from cdc.web.plots import plots
from cdc.web.tables import tables
from cdc.web.verifying import VerifyProgress
from cdc.web.views import Shown
from cdc.web.words import ago, clock, count, lag, rate, seconds, size_text, when

_BATCHES = 20
_ERRORS = 5


def detail(
    shown: Shown,
    visitor: Visitor,
    query: str,
    number: int,
    log: Sequence[LogLine],
    message: str = "",
    verified: VerifyProgress | None = None,
    span: str = "20min",
) -> str:
    """The whole page. `query` and `number` say which tables, `span` which range of the plots; `message` is what an
    action has answered just now."""
    view, status = shown.view, shown.status
    parts: list[Child] = [
        el("div", el("h1", view.name), live("state", badge(view.state), _timing(view)), class_="title"),
        el("p", message, class_="said", role="status") if message else None,
        live("actions", _actions(view, visitor)),
        live("problems", _problems(shown, visitor)),
        live("path", _path(shown)),
    ]
    if status is not None:
        parts += [
            live("tiles", _tiles(shown, status), tag="dl", class_="tiles"),
            plots(view.name, status, Path(view.state_dir), span, query),
        ]
    parts.append(live("verify", _verified(verified)))
    errors = [error_card(error) for error in shown.errors[_at_the_top(shown) : _ERRORS]]
    parts.append(
        el(
            "section",
            el("h2", "Last errors"),
            live("errors", errors or _none("No others." if _at_the_top(shown) else "None.")),
        )
    )
    if status is not None:
        parts += [
            tables(view.name, status, visitor, query, number, span),
            el("section", el("h2", "Batches"), legend(), live("batches", _batches(status))),
            el("section", el("h2", "Schema changes"), live("changes", _changes(status)), _more(view.name)),
        ]
    parts += [
        live("notices", _notices(status)),
        el("section", el("h2", "Runs"), live("runs", _runs(view))),
        el("section", el("h2", "Log ", el("small", "times are UTC")), live("log", _log(log)), id="log"),
        el("section", el("h2", "File ", el("small", view.file)), _file(view), id="file"),
    ]
    return page(view.name, visitor, parts, crumbs=[(view.name, link(view.name))])


def _timing(view: PipelineView) -> Child:
    """When it runs, beside its state."""
    next_run = None if view.next_run_s is None else f"next run {ago(view.next_run_s)}"
    parts = [view.schedule or None, next_run]
    text = ", ".join(part for part in parts if part)
    return [" ", el("span", text, class_="dim")] if text else None


def _none(message: str = "None.") -> Markup:
    return el("p", message, class_="empty")


def _more(name: str) -> Markup:
    return el("p", el("a", "Schemas of all tables, with their history", href=link(name, "schemas")))


def _actions(view: PipelineView, visitor: Visitor) -> Child:
    plan = el("a", "Show plan", href=link(view.name, "plan"), class_="button")
    schemas = el("a", "Schemas", href=link(view.name, "schemas"), class_="button")
    if visitor.read_only:
        return el("div", schemas, class_="actions")
    name = view.name
    if view.state in RUNNING:
        life: list[Child] = [
            action(visitor, name, "stop", "Stop", ask=f"Stop {name} after its running batch?"),
            action(visitor, name, "drain", "Drain and stop", ask=f"Stop {name} once all of the log is committed?"),
        ]
    else:
        stop = action(visitor, name, "stop", "Stop", ask=f"Begin no run of {name} until it is started?")
        life = [action(visitor, name, "start", "Start"), stop if view.state in ("waiting", "scheduled") else None]
    return el(
        "div",
        life,
        action(visitor, name, "savepoint", "Savepoint"),
        action(visitor, name, "verify", "Verify"),
        plan,
        schemas,
        el("a", "Log", href="#log", class_="button"),
        el("a", "File", href="#file", class_="button"),
        class_="actions", role="group", aria_label="Actions",
    )  # fmt: skip


def _at_the_top(shown: Shown) -> int:
    """So many of the last errors are shown before all else: that of a pipeline that does not run or needs a person."""
    return int(bool(shown.errors) and (shown.view.state in ("failed", "waiting") or bool(shown.view.attention)))


def _problems(shown: Shown, visitor: Visitor) -> list[Child]:
    found = [el("p", problem) for problem in shown.view.file_errors]
    cards: list[Child] = [el("article", el("strong", "The pipeline file"), found, class_="card bad")] if found else []
    if shown.view.attention not in ("", "failed", "invalid file"):
        cards.append(el("p", el("strong", "Needs attention: "), shown.view.attention, class_="bad"))
    cards += [error_card(error) for error in shown.errors[: _at_the_top(shown)]]
    if shown.unreadable:
        cards.append(el("article", shown.unreadable, class_="card bad"))
    if shown.status is not None and (shown.status.paused or shown.status.resumed):
        cards.append(_held(shown.view.name, shown.status, visitor))
    if shown.live is not None and shown.live.note:
        cards.append(el("article", el("strong", "Waiting: "), shown.live.note, class_="card warn"))
    return cards


def _held(name: str, status: StatusDocument, visitor: Visitor) -> Markup:
    """Tables that are paused, with what ends that."""

    def resume(table: str) -> Child:
        hidden = el("input", type="hidden", name="table", value=table)
        return None if visitor.read_only else action(visitor, name, "resume", "Resume", hidden, about=table)

    lines = [
        el("div", el("strong", "Paused: "), el("code", table), resume(table), class_="held") for table in status.paused
    ]
    lines += [el("p", el("strong", "Resumed: "), el("code", each), " is re-snapshotted") for each in status.resumed]
    return el("article", lines, class_="card warn")


def _verified(found: VerifyProgress | None) -> Child:
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


def _tiles(shown: Shown, status: StatusDocument) -> list[Child]:
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
        tile("Rows, all runs", count(shown.view.totals.rows), _runs_text(shown.view.totals)),
        tile("Starts", count(status.runs), f"{status.restarts} after a failure"),
    ]  # fmt: skip


def _runs_text(totals: RunTotals) -> str:
    return f"{totals.runs:,} run{'' if totals.runs == 1 else 's'}, {totals.failed:,} failed"


def _last_batch(status: StatusDocument) -> str:
    if not status.batches:
        return "none yet"
    last = status.batches[-1]
    return f"last took {seconds(last.duration_s)}, {ago(last.committed_s)}"


def _batches(status: StatusDocument) -> Markup:
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


def _changes(status: StatusDocument) -> Markup:
    tones = {"applied": "good", "held-back": "warn", "refused": "warn", "failed": "bad"}
    rows = [
        row(each.table, each.change, el("span", each.outcome, class_=f"badge {tones.get(each.outcome, 'calm')}"),
            each.batch if each.batch >= 0 else "–", when(each.at_s), numbers=(3,))
        for each in reversed(status.schema_changes[-_BATCHES:])
    ]  # fmt: skip
    return table("Schema changes", ("Table", "Change", "Outcome", "Batch", "When"), rows, numbers=(3,))


def _notices(status: StatusDocument | None) -> Child:
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
        el("li", clock(each.at_s), " ", el("b", each.level, class_=each.level), " ", each.message, _fields(each.fields))
        for each in reversed(lines)
    ]
    return el("ol", shown, class_="log", tabindex="0", aria_label="Log, newest first")


def _file(view: PipelineView) -> Markup:
    """The file as it is now, which may not be the version that runs."""
    changed = None
    if view.file_errors:
        changed = el("p", "This text has mistakes; what runs is the version before.", class_="warn")
    text = el("pre", file_text(Path(view.file)), class_="text", tabindex="0", aria_label="Pipeline file")
    return el("div", changed, text)


def _fields(fields: Mapping[str, object]) -> str:
    return "".join(f" {name}={value}" for name, value in fields.items())
