"""Foreign keys that change rows without logging it, as InnoDB applies them itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cdc.schema import TableId
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.statements import AlterTableStatement, CreateTableStatement, Statement
from connectors.shared.ddl.tokens import TokenKind, Unreadable

SILENT_ACTIONS = ("CASCADE", "SET NULL", "SET DEFAULT")
ADVICE = "change the children by statements of their own, before the parent"
_REFERENCES = re.compile(r"\bREFERENCES\b", re.IGNORECASE)
_UNNAMED = ("",)
"""Columns of a foreign key that refers to the parent's key without naming it."""


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key that changes rows of `child` unlogged, when rows of `parent` are deleted or its `columns` change.

    `on_delete` and `on_update` are one of `SILENT_ACTIONS`, or empty.
    """

    parent: TableId
    child: TableId
    columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    @property
    def description(self) -> str:
        """The consequence if the parent is captured, in words."""
        return f"{self.child} is re-snapshotted when rows of {self.parent} change that it refers to: not all is logged"

    @property
    def warning_text(self) -> str:
        """The consequence if the parent is not captured, in words."""
        return (
            f"{self.child}: what becomes of its rows when those of {self.parent} change is not in this server's "
            "log, and that table is not captured, so that nothing is copied for it"
        )


def declared_links(
    statement: Statement, sql: str, dialect: DdlDialect, known_name: Callable[[TableId], TableId]
) -> Iterator[Link]:
    """Yield the unlogged foreign keys that a statement declares; `known_name`: the server's name of a table."""
    if dialect.logs_cascades or not _REFERENCES.search(sql):
        return
    if isinstance(statement, CreateTableStatement | AlterTableStatement):
        child = known_name(statement.table)
        cursor = Cursor(sql, dialect, child.database)
        try:
            while cursor.peek().kind is not TokenKind.END:
                if cursor.accept("REFERENCES"):
                    link = _link(cursor, child, known_name(cursor.table()))
                    if link.on_delete or link.on_update:
                        yield link
                else:
                    cursor.next()
        except Unreadable:
            return  # a query follows the columns


def _link(cursor: Cursor, child: TableId, parent: TableId) -> Link:
    """Parse the foreign key whose text continues after the name of the parent."""
    columns = cursor.names_in_brackets() if cursor.at_symbol("(") else _UNNAMED
    actions: dict[str, str] = {}
    while cursor.at_any("MATCH", "ON"):
        if cursor.next().word == "MATCH":
            cursor.next()
        else:
            when = cursor.next().word
            actions[when] = _action(cursor)
    return Link(parent, child, columns, actions.get("DELETE", ""), actions.get("UPDATE", ""))


def _action(cursor: Cursor) -> str:
    for action in SILENT_ACTIONS:
        if cursor.accept(*action.split()):
            return action
    if not cursor.accept("NO", "ACTION"):
        cursor.next()
    return ""


def cascade_notices(links: Iterable[Link], captures: Callable[[TableId], bool]) -> Iterator[str]:
    """Yield a notice for the user on each captured table that gets such foreign keys."""
    actions: dict[TableId, set[str]] = {}
    for link in links:
        named = (("DELETE", link.on_delete), ("UPDATE", link.on_update))
        actions.setdefault(link.child, set()).update(f"ON {when} {action}" for when, action in named if action)
    for child in sorted(filter(captures, actions)):
        yield (
            f"{child}: a foreign key is declared here, and what it does ({', '.join(sorted(actions[child]))}) is not "
            f"in this log, and not done in the sink ({ADVICE})"
        )
