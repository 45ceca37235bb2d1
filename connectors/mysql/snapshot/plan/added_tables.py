"""Tables newly captured since the pipeline file was edited. Stream reader process, once at the start of a run.

The log after the offset holds neither the definition nor the existing rows of such a table. Tables created after the
offset are not among them: the log has their CREATE TABLE and all of their rows, or a RENAME of a followed table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.follow.redefined import ChangedTables
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.positions import log_end
from connectors.mysql.server.server_check import check_select, check_server
from connectors.mysql.server.server_info import ServerInfo
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.statements import CreateTableStatement, Statement, renamed


@dataclass(frozen=True, slots=True)
class AddedTables:
    """Tables captured from an offset on.

    Attributes:
        tables: those that exist now, with their definitions at the offset; None if the log after it alters the table.
        leaving: those from which the log after the offset takes the name away. They are there under another name, or
            not any more.
    """

    tables: Mapping[TableId, MySqlTable | None] = field(default_factory=dict)
    leaving: frozenset[TableId] = frozenset()


def added_tables(
    start: MySqlOffset,
    known: Collection[TableId],
    defined: Collection[TableId],
    captures: Callable[[TableId], bool],
    streams: Streams,
    *,
    allowed: bool,
) -> AddedTables | None:
    """Return the captured tables that were not `known` at `start`; the definitions of those `defined` are known there.

    Returns None while the server is another one than that of `start`: its log must be joined first. Raises SourceError
    when there are such tables and they are not `allowed`.
    """
    with streams.session() as connection:
        info = check_server(connection, captures)
        fresh = {table for table in table_ids(connection) if captures(table) and table not in known}
        if info.identity != start.server:
            return None
        if not fresh and not defined:
            return AddedTables()
        found = read_tables(connection, fresh.__contains__)
        check_select(connection, found)
        end = check_server(connection)
    changes = _Changes(fresh.union(defined), filter(captures, known), end)
    changes.scan(partial(streams.at, server=end.identity), start.position, log_end(end))
    found = {table: definition for table, definition in found.items() if table not in changes.created}
    names = ", ".join(map(str, list(found)[:5]))
    if found and not allowed:
        raise SourceError(
            f"tables match since the pipeline file was edited: {names}",
            hint="set scan.newly-added-table.enabled: true to copy them, or leave them out with tables.exclude",
        )
    tables = {table: None if table in changes.tables else definition for table, definition in found.items()}
    return AddedTables(tables, frozenset(defined) & changes.tables - tables.keys())


def unknown_tables(found: Mapping[TableId, MySqlTable | None], options: MySqlSourceOptions) -> list[TableId]:
    """Return the tables that were altered in the unread log: they are snapshotted after the last alteration.

    Raises SourceError for those that the options do not let be snapshotted then.
    """
    unknown = sorted(table for table, definition in found.items() if definition is None)
    refused = [str(table) for table in unknown if not options.copies_uncertain(table)]
    if refused:
        raise SourceError(
            f"{', '.join(refused)}: matches since the pipeline file was edited, and was altered in the part of the log "
            "that is not read yet",
            hint="run `cdc run --until-caught-up` once with the table left out (tables.exclude), then with it",
        )
    return unknown


def without_rows(found: Iterable[TableId], left_out: Collection[TableId], options: MySqlSourceOptions) -> list[str]:
    """Return notices on tables that begin without their existing rows.

    `left_out` were captured earlier, but not lately.

    Raises SourceError for those of `left_out`, which would have a gap.
    """
    bare = sorted(table for table in found if not options.snapshotted_when_added(table))
    gaps = [str(table) for table in bare if table in left_out]
    if gaps:
        raise SourceError(
            f"{', '.join(gaps)}: was left out for a time, so its changes were not read, and it is not to be copied",
            where="source.tables",
            hint="have it copied with scan.startup.table-modes (the table, and initial), or leave it out",
        )
    why = "the rows that it has are not copied, as the startup mode says"
    return [f"{table} is captured from here on; {why}" for table in bare]


class _Changes(ChangedTables):
    """Collects, besides redefined tables, those of which the log has all rows.

    The log creates them, or renames followed tables to them. `fresh` are tables that may be new, `followed` those
    captured before.
    """

    def __init__(self, fresh: Collection[TableId], followed: Iterable[TableId], info: ServerInfo) -> None:
        super().__init__(fresh.__contains__, fresh, info)
        self._followed = set(followed)
        self.created: set[TableId] = set()

    def _note(self, statement: Statement) -> None:
        if isinstance(statement, CreateTableStatement):
            self._begin(self._known_name(statement.table))
        for pair in renamed(statement):
            old, new = map(self._known_name, pair)
            if old in self._followed or old in self.created:
                self._begin(new)
        super()._note(statement)

    def _begin(self, table: TableId) -> None:
        if table not in self.tables:
            self.created.add(table)
