"""Applies logged statements to the catalog, one after another, and extends the schema history. Stream reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.events import Uncertain
from cdc.schema import CreateTable, TableId
from connectors.mysql.ddl.catalog import DdlResult, TableDefinitions
from connectors.mysql.ddl.delta import Delta, Mark
from connectors.mysql.ddl.names import names_in
from connectors.mysql.ddl.work import COPY_IT
from connectors.mysql.log.query_event import QueryEvent, parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.transaction_filter import begin_of, transaction_begins
from connectors.mysql.rows.collations import charset_of
from connectors.mysql.schema.history import SchemaEntry, SchemaHistory
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.table import FIX_TRANSACTION_IDS, MySqlTable, doubtful_labels

Reread = Callable[[Collection[TableId], LogPosition], Mapping[TableId, MySqlTable | None]]
"""See `connectors.mysql.follow.unlogged`."""

Unlogged = Callable[
    [Mapping[TableId, MySqlTable], LogPosition, Callable[[], Mapping[TableId, MySqlTable]]],
    Mapping[TableId, MySqlTable | None] | None,
]
"""See `connectors.mysql.follow.unlogged`."""

_FROM_METADATA = "-- from the metadata of its rows"
_LABELS = "-- labels from the metadata of its rows"
_UNLOGGED = "-- altered without a statement in the log"
_ROLLED_BACK = "-- rows that were rolled back"
_AND_BY_TRANSACTION = f"; and those on tables versioned by transaction ids, in any format: {FIX_TRANSACTION_IDS}"
_CHECKSUM_BYTES = 4
_SERVER_ID = 5  # of an event's header
_TABLE_ID = 6  # bytes
_CREATED, _ALTERED = b"new", b""  # for the id of a table that a statement has just defined


class Tracker:
    """Applies the log's statements to the catalog and writes them to the history. Stream reader process only."""

    def __init__(
        self,
        history: SchemaHistory,
        catalog: TableDefinitions,
        notices: list[str],
        *,
        changes_allowed: bool = True,
        reread: Reread | None = None,
        unlogged: Unlogged | None = None,
        ordered: Collection[TableId] = (),
    ) -> None:
        """`ordered`: tables with an ordered snapshot, whatever the log says about their rows."""
        self._ordered = ordered
        self._history, self._catalog, self._changes_allowed = history, catalog, changes_allowed
        self._reread, self._unlogged = reread, unlogged
        self.entries = history.count()
        self._ids: dict[TableId, bytes] = {}
        self._described = {
            table
            for entry in history.entries(0, self.entries)
            if entry.sql == _FROM_METADATA
            for table in entry.delta.tables
        }
        self._doubted: set[TableId] = set()
        self._compared = False
        self._notices = notices

    def statement(self, buffer: ReceiveBuffer, index: int, gtid: str) -> frozenset[TableId]:
        """Handle a statement, see `segmenter.SchemaTracker`. Raises UnsupportedChange, SchemaUnknown."""
        query, where = parse_query(buffer, index), buffer.where(index)
        result = apply_query(self._catalog, query, buffer, index)
        if result.unparsed:
            result = self._read_again(result, query, LogPosition(buffer.file, int(buffer.end_position[index])))
        self._refuse(result, query, where)
        self._notices += [f"{where}: {notice}" for notice in result.notices]
        if result.delta or result.changes:
            at = _place(buffer, index) | ({"gtid": gtid} if gtid else {})
            self.entries = self._history.append(SchemaEntry.of(result, at, query.sql))
        touched = result.touched | {change.table for change in result.changes}
        created = {change.table for change in result.changes if isinstance(change, CreateTable)}
        for table in touched:
            self._ids[table] = _CREATED if table in created else _ALTERED
        return touched

    def compare(self, at: LogPosition) -> bool:
        """Compare all captured tables with the server's before following the log after `at`.

        Records unlogged alterations. Returns False when `at` is too far behind to tell. Raises UnsupportedChange when
        such a table is not re-snapshotted for that, SourceError.
        """
        if self._unlogged is None:
            return True
        known = {table: found for table, found in self._catalog.captured.items() if table not in self._described}
        found = self._unlogged(known, at, dict)
        if found is None:
            return False
        self._compared = True
        for table in sorted(table for table, definition in found.items() if definition is None):
            self._notices.append(
                f"{table} is not on the server, or not to be seen by this account, and its log does not say that it "
                "was dropped: the sink keeps its rows"
            )
        self._redefine({table: definition for table, definition in found.items() if definition is not None}, at)
        return True

    def table(self, buffer: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        """Ensure that the table has a definition, see `segmenter.SchemaTracker`.

        A table that no statement has defined is re-snapshotted with the server's definition; if nothing is copied, its
        definition is taken from the event, if that has all metadata. Raises SchemaUnknown when neither is possible. A
        table that the server has altered without logging it gets its current definition.
        """
        if table in self._catalog.unread:
            return frozenset()
        if table in self._catalog.tables:
            return self._under_new_id(buffer, index, table) | self._spelled(buffer, index, table)
        if self._reread is not None and self._catalog.copied_when_uncertain(table):
            return self._read_unknown_table(self._reread, table, _transaction_of(buffer, index))
        from connectors.mysql.rows.described import described

        definition = described(buffer.body(index)[6:], buffer.where(index))
        if definition is not None:
            result = self._catalog.define([definition])
            at = {"file": buffer.file, "pos": int(buffer.end_position[index])}
            self.entries = self._history.append(SchemaEntry.of(result, at, _FROM_METADATA))
            self._notices.append(
                f"{at['file']}:{at['pos']}: {table}: no CREATE TABLE in the log, read from its metadata"
            )
            return result.touched
        raise SchemaUnknown(
            f"the log has rows of {table}, but its definition at this point is not known: it was created before the "
            "start and altered or dropped since",
            where=buffer.where(index),
            hint="start at a later position, exclude the table (tables.exclude), add schema-files (binlog-files), "
            "or have the server write binlog_row_metadata=FULL",
        )

    def _under_new_id(self, buffer: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        """Compare a table that has a new id with the server's definition.

        A server renumbers a table when it reopens it: because others need the space, or after an ALTER. A table just
        created by a logged statement is not compared, as there may be thousands of them.
        """
        number = bytes(buffer.body(index)[:_TABLE_ID])
        before, self._ids[table] = self._ids.get(table), number
        unsuspected = before == _CREATED and self._compared
        if self._unlogged is None or number == before or unsuspected or table in self._described:
            return frozenset()
        at = _transaction_of(buffer, index)
        found = self._unlogged({table: self._catalog.tables[table]}, at, lambda: self._catalog.captured)
        definition = (found or {}).get(table)
        return frozenset() if definition is None else self._redefine({table: definition}, at)

    def _spelled(self, buffer: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        """Take labels of ENUM and SET from the event's metadata, if a server shows them with `?`."""
        known = self._catalog.tables[table]
        doubtful = doubtful_labels(known)
        if not doubtful or table in self._doubted:
            return frozenset()
        from connectors.mysql.rows.described import described

        found = described(buffer.body(index)[6:], buffer.where(index))
        if found is None:
            self._doubted.add(table)
            self._notices.append(
                f"{table}: labels of {', '.join(doubtful)} have a `?`. One may stand for a letter beyond U+FFFF, "
                "as the server shows emoji so; values from its log have it, too, then. "
                "With binlog_row_metadata=FULL on the server they have the letter"
            )
            return frozenset()
        labels = {column.name: column.labels for column in found.columns if column.name in doubtful}
        columns = (replace(column, labels=labels.get(column.name, column.labels)) for column in known.columns)
        result = self._catalog.define([replace(known, columns=tuple(columns))])
        if not result.delta:
            self._doubted.add(table)
            return frozenset()
        self.entries = self._history.append(SchemaEntry.of(result, _place(buffer, index), _LABELS))
        return result.touched

    def _redefine(self, found: Mapping[TableId, MySqlTable], at: LogPosition) -> frozenset[TableId]:
        """Adopt the server's definitions that no logged statement explains."""
        names = sorted(found)
        if not names:
            return frozenset()
        if not all(map(self._catalog.copied_when_uncertain, names)):
            raise UnsupportedChange(
                "its definition on the server differs from the one in the log: it was altered without logging "
                "(sql_log_bin=0, or the filter of a replica)",
                where=f"{', '.join(map(str, names))} at {at}",
                hint=COPY_IT,
            )
        return self._resnapshot(
            found, at, "its definition on the server differs from the one in the log (sql_log_bin=0?)"
        )

    def _read_unknown_table(self, reread: Reread, table: TableId, at: LogPosition) -> frozenset[TableId]:
        """Adopt a table that was created without a logged statement."""
        found = reread({table}, at)
        if not found:
            raise SchemaUnknown(
                f"the log has rows of {table}, which no statement in it has created, and the server does not show the "
                "table to this account",
                where=str(at),
                hint=f"run on the server: GRANT SELECT ON {table} to the account, then start again: it is copied then; "
                "or leave it out with tables.exclude",
            )
        reason = "it came to be where nothing is logged (sql_log_bin=0?), or this account may see it now"
        return self._resnapshot(found, at, reason)

    def _resnapshot(
        self, found: Mapping[TableId, MySqlTable | None], at: LogPosition, reason: str
    ) -> frozenset[TableId]:
        result = self._adopt(found, reason)
        self._notices += [f"{at}: {notice}" for notice in result.notices]
        place = {"file": at.file, "pos": at.position}
        self.entries = self._history.append(SchemaEntry.of(result, place, _UNLOGGED))
        return frozenset(found)

    def _adopt(self, found: Mapping[TableId, MySqlTable | None], reason: str) -> DdlResult:
        """Adopt definitions that the log does not hold. Known tables are re-snapshotted, others are snapshotted.

        None stands for a definition that later statements of the log hide: of a table that is not known.
        """
        known = sorted(self._catalog.tables.keys() & found.keys())
        defined = self._catalog.define(definition for definition in found.values() if definition is not None)
        marks: dict[TableId, Mark] = {
            table: "unknown" if definition is None else "arrived"
            for table, definition in found.items()
            if table not in known
        }
        marked = self._catalog.mark(marks)
        delta = replace(
            defined.delta,
            marks={**defined.delta.marks, **marked.delta.marks},
            uncertain=dict.fromkeys(known, Uncertain(reason, same_rows=False)),
        )
        when = {"arrived": "", "unknown": " once the log has altered it for the last time"}
        notices = (f"{table} is copied{when[marks[table]]}: {reason}" for table in marked.delta.marks)
        return DdlResult(defined.changes, defined.touched | marked.touched, delta, tuple(notices))

    def uncertain(self, buffer: ReceiveBuffer, index: int, tables: Collection[TableId], reason: str) -> bool:
        """Record uncertain rows, see `segmenter.SchemaTracker`."""
        tables = tables or self._ordered
        if not tables or not all(map(self._catalog.copied_when_uncertain, tables)):
            return False
        result = DdlResult(delta=Delta(uncertain={table: Uncertain(reason, same_rows=False) for table in tables}))
        at = {"file": buffer.file, "pos": int(buffer.end_position[index])}
        self.entries = self._history.append(SchemaEntry.of(result, at, _ROLLED_BACK))
        return True

    def _read_again(self, result: DdlResult, query: QueryEvent, at: LogPosition) -> DdlResult:
        """Resolve a statement that is not understood by reading its tables from the server and copying them.

        Returns the result unchanged where that is not possible.
        """
        tables = self._meant(result, query)
        if self._reread is None or not tables or not all(map(self._catalog.copied_when_uncertain, tables)):
            return result
        found = self._reread(tables, at)
        if found.keys() != tables:
            return result
        first = result.unparsed[0]
        reason = (
            first.reason if first.complete else f"a statement that may change it is not understood ({first.reason})"
        )
        self._check_unknown([table for table, definition in found.items() if definition is None], at)
        adopted = self._adopt(found, reason)
        delta = replace(
            result.delta,
            tables={**result.delta.tables, **adopted.delta.tables},
            marks={**result.delta.marks, **adopted.delta.marks},
            uncertain=adopted.delta.uncertain,
        )
        return replace(
            result,
            changes=(*result.changes, *adopted.changes),
            touched=result.touched | adopted.touched,
            notices=(*result.notices, *adopted.notices),
            delta=delta,
            unparsed=(),
        )

    def _check_unknown(self, later: Collection[TableId], at: LogPosition) -> None:
        """Raise UnsupportedChange if the sink has tables of which later statements hide the definition at a position.

        Others have no definition until the last of these statements.
        """
        defined = sorted(table for table in later if table in self._catalog.tables)
        if defined:
            raise UnsupportedChange(
                "a statement that changes it is not understood, and the log changes it once more after that: nothing "
                "tells what it was in between",
                where=f"{', '.join(map(str, defined))} at {at}",
                hint="leave it out with tables.exclude until the log is read to its end, then take it in again: it is "
                "copied then; or start over after this position",
            )

    def _meant(self, result: DdlResult, query: QueryEvent) -> frozenset[TableId]:
        """Return the captured tables that a statement names, or may mean by its text; all if it names none."""
        catalog = self._catalog
        named = {catalog.known_name(table) for statement in result.unparsed for table in statement.tables}
        found = frozenset(filter(catalog.captures, named))
        if all(statement.complete for statement in result.unparsed):
            return found
        found |= names_in(query.sql, query.schema, (*catalog.captured, *catalog.unknown))
        return found or frozenset(catalog.captured)

    def _refuse(self, result: DdlResult, query: QueryEvent, where: str) -> None:
        if result.dml:
            raise UnsupportedChange(
                f"{result.dml[0].kind.upper()} was logged as a statement, so the rows it changed are not in the log: "
                f"{query.sql[:200]}",
                where=where,
                hint="set binlog_format=ROW for every session; then start over after this position. Statements on "
                "other tables of the database count, as views, triggers and functions may write to captured ones"
                f"{_AND_BY_TRANSACTION if self._catalog.has_transaction_versions else ''}",
            )
        if result.unparsed:
            raise UnsupportedChange(
                f"a statement that may change captured tables is not understood ({result.unparsed[0].reason}): "
                f"{query.sql[:200]}",
                where=where,
                hint=COPY_IT,
            )
        if result.changes and not self._changes_allowed:
            raise UnsupportedChange(
                f"a captured table was changed and schema-change.enabled is false: {query.sql[:200]}",
                where=where,
                hint="remove schema-change.enabled, or start over after this position",
            )


def _transaction_of(buffer: ReceiveBuffer, index: int) -> LogPosition:
    """Return the begin of the transaction that contains an event, or of its part in this buffer."""
    begins = [begin for begin in transaction_begins(buffer) if begin < index]
    return begin_of(buffer, begins[-1] if begins else 0)


def _place(buffer: ReceiveBuffer, index: int) -> dict[str, Any]:
    """Return the position of a statement in the log, its time and its server."""
    begin, end = int(buffer.start[index]), int(buffer.end_position[index])
    size = int(buffer.end[index]) - begin + (_CHECKSUM_BYTES if buffer.checksum else 0)
    server = int.from_bytes(buffer.data[begin + _SERVER_ID : begin + _SERVER_ID + 4].tobytes(), "little")
    return {
        "file": buffer.file, "pos": end, "begin": end - size, "ms": int(buffer.commit_ms[index]), "server_id": server
    }  # fmt: skip


def apply_query(catalog: TableDefinitions, query: QueryEvent, buffer: ReceiveBuffer, index: int) -> DdlResult:
    """Apply a QUERY event to a catalog, under the settings that it carries, as of the time when its statement began."""
    begin = int(buffer.start[index])
    began_s = int.from_bytes(buffer.data[begin : begin + 4].tobytes(), "little")
    explicit = query.explicit_timestamp_flag if catalog.dialect.has_timestamp_flag else query.explicit_timestamp
    return catalog.apply(
        query.sql,
        query.schema,
        sql_mode=query.sql_mode or 0,
        charset=charset_of(query.server_collation or 0) or "utf8mb4",
        explicit_timestamps=explicit,
        time_zone=query.time_zone,
        literals=query.literals,
        executed_at=datetime.fromtimestamp(began_s, UTC),
        failed=query.error_code != 0,
    )
