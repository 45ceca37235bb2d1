"""The smaller pages: schemas with their history, the plan, logging in, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from cdc.errors import CdcError
from cdc.status.schemas import ColumnView, SchemaVersion
from cdc.web.html import Child, Markup, el
from cdc.web.layout import Visitor, link, page, row, table

_MOST_TABLES = 200
"""Tables in the list of schemas; a filter finds the others."""


def schemas(
    name: str, visitor: Visitor, history: Mapping[str, Sequence[SchemaVersion]], query: str, chosen: str
) -> str:
    """All sink tables with their number of versions, or the versions of one."""
    crumbs = [(name, link(name)), ("schemas", link(name, "schemas"))]
    if chosen:
        body: Child = [el("h1", chosen), [_version(each, before) for each, before in _pairs(history.get(chosen, ()))]]
        return page(f"{chosen} · {name}", visitor, body, crumbs=[*crumbs, (chosen, _to(name, chosen))])
    found = [each for each in history if query.casefold() in each.casefold()]
    rows = [
        row(el("a", each, href=_to(name, each)), len(history[each]), _about(history[each][-1]), numbers=(1,))
        for each in found[:_MOST_TABLES]
    ]
    field = el("input", type="search", name="q", value=query, placeholder="Filter tables", aria_label="Filter tables")
    form = el("form", field, el("button", "Filter"), method="get", action=link(name, "schemas"), class_="bar")
    more = len(found) - _MOST_TABLES
    return page(
        f"Schemas · {name}", visitor, el("h1", "Schemas of the sink's tables"), form,
        table("Schemas", ("Table", "Version", "Columns"), rows, numbers=(1,)),
        el("p", f"{more:,} more tables: filter for them.", class_="empty") if more > 0 else None, crumbs=crumbs,
    )  # fmt: skip


def _to(name: str, chosen: str) -> str:
    return f"{link(name, 'schemas')}?{urlencode({'table': chosen})}"


def _about(version: SchemaVersion) -> str:
    return "dropped" if version.dropped else f"{len(version.columns)} columns"


def _pairs(versions: Sequence[SchemaVersion]) -> list[tuple[SchemaVersion, SchemaVersion | None]]:
    """Newest first, each with the one before."""
    return list(zip(reversed(versions), [*reversed(versions[:-1]), None], strict=True))


def _version(version: SchemaVersion, before: SchemaVersion | None) -> Markup:
    old = {} if before is None else {column.name: column for column in before.columns}
    rows = [_column(column, old.get(column.name), first=before is None) for column in version.columns]
    gone = [el("li", el("del", name)) for name in old if name not in {column.name for column in version.columns}]
    return el(
        "section",
        el("h2", f"Version {version.version}", el("small", f" from batch {version.batch} on")),
        el("p", "The table is dropped.") if version.dropped else None,
        table(f"Version {version.version}", ("Column", "Type", "NULL", "Key", "Change"), rows) if rows else None,
        el("ul", gone, class_="gone", aria_label="Columns that are gone") if gone and not version.dropped else None,
    )


def _column(column: ColumnView, before: ColumnView | None, *, first: bool) -> Markup:
    change: Child = ""
    if not first and before is None:
        change = el("span", "added", class_="badge good")
    elif before is not None and before != column:
        was = f"{before.type}{'' if before.nullable else ' NOT NULL'}{' key' if before.key else ''}"
        change = [el("span", "changed", class_="badge warn"), f" was {was}"]
    return row(
        column.name, el("code", column.type), "yes" if column.nullable else "no", "key" if column.key else "", change
    )


def plan(name: str, visitor: Visitor, text: str) -> str:
    """The page with the plan of the next run, as `cdc plan` prints it."""
    body = el("pre", text, class_="plan", tabindex="0", aria_label="Plan")
    return page(f"Plan · {name}", visitor, el("h1", "Plan"), body, crumbs=[(name, link(name))])


def login(target: str, wrong: bool) -> str:
    """The form that asks for the token."""
    label = el("label", "Token", for_="token")
    field = el(
        "input", id="token", name="token", type="password", autocomplete="current-password", required=True,
        autofocus=True, aria_describedby="why" if wrong else None,
    )  # fmt: skip
    refusal = el("p", "That is not the token.", id="why", class_="bad", role="alert") if wrong else None
    hidden = el("input", type="hidden", name="next", value=target)
    form = el(
        "form", hidden, label, field, refusal, el("button", "Log in"), method="post", action="/login", class_="login"
    )
    return page("Log in", None, el("h1", "Log in"), form)


def failed(error: CdcError, visitor: Visitor | None, back: str) -> str:
    """The page about a request that could not be done: why, and the next step."""
    parts = [
        el("h1", "That could not be done"),
        el("article", el("p", error.message), el("p", error.where, class_="where") if error.where else None,
           el("p", el("b", "Next step: "), error.hint, class_="hint") if error.hint else None, class_="card bad"),
        el("p", el("a", "Back", href=back)),
    ]  # fmt: skip
    return page("Not done", visitor, parts)
