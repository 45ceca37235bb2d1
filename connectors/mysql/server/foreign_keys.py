"""Foreign keys that change rows of captured tables without logging it.

InnoDB applies ON DELETE and ON UPDATE itself, below the binary log: the delete of a parent is logged, those of its
children are not (MySQL manual, "InnoDB and Replication"). From 9.6 on MySQL applies them above it, and logs every row,
unless `innodb_native_foreign_keys` says otherwise. MariaDB never does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cdc.errors import SourceError
from cdc.finding import Finding, ok, warning
from cdc.schema import TableId
from connectors.mysql.ddl.cascades import ADVICE, SILENT_ACTIONS, Link
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import is_gone
from connectors.mysql.server.information_schema import rows_of_databases
from connectors.mysql.server.server_info import ServerInfo, query
from connectors.shared.sql.text import quoted

_SUBJECT = "foreign keys"
_RULES = (
    "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE "
    "FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE"
)
_SEEN = "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLE_CONSTRAINTS WHERE"
_CONSTRAINT = re.compile(r"^\s*CONSTRAINT `(.+?)` FOREIGN KEY (.*)$", re.MULTILINE)
"""MariaDB 10.11.18 writes a backtick inside the name unescaped, other versions double it."""
_ACTION = re.compile(rf"\bON (DELETE|UPDATE) ({'|'.join(SILENT_ACTIONS)})\b")


_NAME = r"`(?:[^`]|``)+`"
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
_REFERS = re.compile(rf"\bREFERENCES ({_NAME}(?:\.{_NAME})?) \(((?:{_NAME}(?:, ?)?)+)\)")


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key of `table` and its `actions`, such as `ON DELETE CASCADE`."""

    table: TableId
    constraint: str
    actions: str

    @property
    def description(self) -> str:
        """The consequence for the sink, in words."""
        return (
            f"{self.table}: what its foreign key {self.constraint} does ({self.actions}) is not in this server's log, "
            "and not done in the sink"
        )

    def __str__(self) -> str:
        return f"{self.description} ({ADVICE})"


def unlogged_links(connection: MySqlConnection, info: ServerInfo, tables: Collection[TableId]) -> tuple[Link, ...]:
    """Return the foreign keys of `unlogged_cascades`, with what they refer to. Raises SourceError."""
    children = sorted({cascade.table for cascade in unlogged_cascades(connection, info, tables)})
    return tuple(link for child in children for link in _links(connection, child))


def describe_cascades(
    connection: MySqlConnection, info: ServerInfo, tables: Collection[TableId], *, copied: bool
) -> Iterator[str]:
    """Describe cascades for the user; `copied`: the children are re-snapshotted if the parent is captured."""
    if not copied:
        yield from map(str, unlogged_cascades(connection, info, tables))
        return
    for link in unlogged_links(connection, info, tables):
        yield link.description if link.parent in tables else f"{link.warning_text} (take it into tables)"


def examine_cascades(
    connection: MySqlConnection, info: ServerInfo, tables: Collection[TableId], cascades: str
) -> Iterator[Finding]:
    """Yield the findings of `cdc doctor`; `cascades` is `foreign-key-cascades`. Raises SourceError."""
    if cascades == "copy":
        for link in unlogged_links(connection, info, tables):
            captured = link.parent in tables
            yield (
                ok(_SUBJECT, link.description)
                if captured
                else warning(_SUBJECT, link.warning_text, "take it into tables")
            )
        return
    for cascade in unlogged_cascades(connection, info, tables):
        if cascades == "ignore":
            yield ok(_SUBJECT, f"{cascade.description}; a run does not say so (foreign-key-cascades: ignore)")
        else:
            yield warning(
                _SUBJECT, cascade.description,
                f"{ADVICE}, or write foreign-key-cascades: copy",
            )  # fmt: skip


def _links(connection: MySqlConnection, child: TableId) -> Iterator[Link]:
    for _, rest in _CONSTRAINT.findall(_definition(connection, child)):
        actions = dict(_ACTION.findall(rest))
        refers = _REFERS.search(rest)
        if actions and refers is not None:
            names = [name.replace("``", "`") for name in _QUOTED.findall(refers[1])]
            parent = TableId(child.database if len(names) == 1 else names[0], names[-1])
            columns = tuple(name.replace("``", "`") for name in _QUOTED.findall(refers[2]))
            yield Link(parent, child, columns, actions.get("DELETE", ""), actions.get("UPDATE", ""))


def unlogged_cascades(
    connection: MySqlConnection, info: ServerInfo, tables: Collection[TableId]
) -> tuple[Cascade, ...]:
    """Return the cascades of the given tables. Driver, once per new pipeline.

    MariaDB lists constraints only to accounts that may write to the table: each of the others is queried alone.
    """
    if info.logs_cascades:
        return ()
    databases = sorted({table.database for table in tables})
    listed = [found for found in _list_cascades(connection, databases) if found.table in tables]
    unseen = sorted(set(tables) - _tables_with_constraints(connection, databases)) if info.mariadb else []
    return (*listed, *(found for table in unseen for found in _cascades_of(connection, table)))


def _list_cascades(connection: MySqlConnection, databases: Sequence[str]) -> Iterator[Cascade]:
    rows = rows_of_databases(connection, _RULES, databases, column="CONSTRAINT_SCHEMA")
    for database, table, constraint, on_delete, on_update in rows:
        rules = (("DELETE", str(on_delete)), ("UPDATE", str(on_update)))
        actions = [f"ON {when} {rule}" for when, rule in rules if rule in SILENT_ACTIONS]
        if actions:
            yield Cascade(TableId(str(database), str(table)), str(constraint), ", ".join(actions))


def _tables_with_constraints(connection: MySqlConnection, databases: Sequence[str]) -> set[TableId]:
    """Return tables whose constraints are visible to this account; tables without constraints are not included."""
    return {TableId(str(database), str(table)) for database, table in rows_of_databases(connection, _SEEN, databases)}


def _cascades_of(connection: MySqlConnection, table: TableId) -> Iterator[Cascade]:
    """Read cascades from SHOW CREATE TABLE, for which SELECT is enough."""
    for constraint, rest in _CONSTRAINT.findall(_definition(connection, table)):
        actions = [f"ON {when} {rule}" for when, rule in _ACTION.findall(rest)]
        if actions:
            yield Cascade(table, constraint.replace("``", "`"), ", ".join(actions))


def _definition(connection: MySqlConnection, table: TableId) -> str:
    """Return the SHOW CREATE TABLE text, empty if the table was dropped meanwhile."""
    try:
        name = quoted(table.database, table.table)
        return str(query(connection, f"SHOW CREATE TABLE {name}")[0][1])
    except SourceError as error:
        if is_gone(error):
            return ""
        raise
