"""Plan entries caused by schema changes, requests and a change of server. Stream reader process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from cdc.errors import UnsupportedChange
from cdc.schema import RenameTable, TableId
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import estimated_size
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.snapshot.chunk import LEFT, Begin, Entry, TableEnd
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.following import Arrival, Following, SequencedChange, UncertainRows
from connectors.mysql.snapshot.plan.requests import Requests, SnapshotRequest, begin_for
from connectors.mysql.snapshot.plan.table_snapshots import continuing_snapshots


class LogEntries:
    """Creates the entries that come before a batch's chunks.

    Args:
        files: the plan, the watermarks and the requests of the pipeline.
        history: schema history; read only.
        captures: the captured tables.
        notices: receives lines for the user.
    """

    def __init__(
        self,
        options: MySqlSourceOptions,
        files: tuple[ChunkPlan, Watermarks, Requests],
        history: SchemaHistory,
        captures: Callable[[TableId], bool],
        session: LazySession,
        notices: list[str],
    ) -> None:
        self._options, self._history, self._captures = options, history, captures
        self._plan, self._marks, self._requests = files
        self._session, self._notices = session, notices

    def of(
        self, start: MySqlOffset, end: MySqlOffset, requests: Sequence[SnapshotRequest], *, moved: bool
    ) -> list[Entry]:
        """Return the entries of the batch between two offsets, with those for requests.

        `moved`: it ends on another server.

        Raises UnsupportedChange for a table too large to be copied automatically, SourceUnavailable, StateError.
        """
        entries = self._without_left(start, end, self._followed(start, end))
        entries += self._requested(start, end, requests)
        return [*entries, *self._restarted(start, entries)] if moved else entries

    def _followed(self, start: MySqlOffset, end: MySqlOffset) -> list[Entry]:
        """Return the entries for logged schema changes of tables being snapshotted or renamed in with rows."""
        before, ahead = start.chunks, end.files_ahead
        if start.schemas == end.schemas:
            return []
        changes = [
            SequencedChange(sequence_of(entry.at["file"], entry.at["pos"], ahead), change)
            for entry in self._history.entries(start.schemas, end.schemas)
            for change in (
                *entry.changes,
                *map(Arrival, entry.delta.arrived),
                *(UncertainRows(table, why) for table, why in entry.delta.uncertain.items()),
            )
        ]
        following = Following(self._plan.snapshots(before), before, self._marks.refresh())
        entries = following.entries(changes, self._history.tables(start.schemas), self._history.tables(end.schemas))
        begun = [entry for entry in entries if isinstance(entry, Begin) and entry.why == "uncertain"]
        reasons = {table: f"{why.reason}; the log does not tell" for table, why in following.uncertain.items()}
        self._announce(begun, reasons)
        return entries

    def _without_left(self, start: MySqlOffset, end: MySqlOffset, entries: list[Entry]) -> list[Entry]:
        """Add an end for each snapshot whose table is no longer captured: renamed away, or excluded."""
        known = self._history.tables(end.schemas)

        def is_left(table: TableId) -> bool:
            return table not in known or not self._captures(table)

        kept = [entry for entry in entries if not (isinstance(entry, Begin) and is_left(entry.table))]
        ended = [table for table in continuing_snapshots(self._plan.snapshots(start.chunks), kept) if is_left(table)]
        self._notices += [f"{table} is not captured any more: its copying ends where it is" for table in ended]
        return [*kept, *(TableEnd(table, LEFT) for table in ended)]

    def _requested(self, start: MySqlOffset, end: MySqlOffset, requests: Sequence[SnapshotRequest]) -> list[Begin]:
        """Return the begins of requested tables; the last of several requests for a table counts.

        A table that the batch renames can be requested by either name.
        """
        if not requests:
            return []
        known = self._history.tables(end.schemas)
        new_names = self.renamed(start, end)
        found: list[Begin] = []
        limited: dict[TableId, str] = {}
        for request in requests:
            table = new_names.get(request.table, request.table)
            if table not in known or not self._captures(table):
                self._notices.append(f"{table} is not a captured table, so it cannot be re-snapshotted")
                self._requests.remove({request.name})
                continue
            found.append(begin_for(request, table))
            limited |= {table: request.reason} if request.limited else {}
        self._announce([begin for begin in found if begin.table in limited], limited)
        return found

    def renamed(self, start: MySqlOffset, end: MySqlOffset) -> Mapping[TableId, TableId]:
        """Map the names before the batch to the names after it, for tables that the batch renames."""
        names: dict[TableId, TableId] = {}
        for entry in self._history.entries(start.schemas, end.schemas):
            for change in entry.changes:
                if isinstance(change, RenameTable):
                    old = next((old for old, new in names.items() if new == change.table), change.table)
                    names[old] = change.new_table
        return names

    def _announce(self, begun: Iterable[Begin], why: Mapping[TableId, str]) -> None:
        """Announce tables that are re-snapshotted automatically. Raises UnsupportedChange for one that is too large."""
        by_table = {begin.table: begin for begin in begun}
        if by_table:
            self._notices += announced(by_table, why, self._session.connection(), self._options.copy_max_rows)

    def _restarted(self, start: MySqlOffset, entries: Collection[Entry]) -> list[Entry]:
        """Restart snapshots on another server, where positions differ, unless the log has already passed them."""
        before, here, marks = start.chunks, start.sequence, self._marks.refresh()
        return [
            snapshot.restarted(table)
            for table, snapshot in continuing_snapshots(self._plan.snapshots(before), entries).items()
            if snapshot.chunks and not snapshot.is_finished(before, marks, here)
        ]


_ELSE = {True: "or schema-change.uncertain: stop to leave its rows to the sink, ", False: ""}


def announced(
    begins: Mapping[TableId, Begin], why: Mapping[TableId, str], session: MySqlConnection, most_rows: int
) -> list[str]:
    """Return a sentence for each restarted table. Stream reader process, when a batch is planned.

    Raises UnsupportedChange when the server estimates more than `most_rows` rows, SourceUnavailable.
    """
    notices = []
    for table, begin in begins.items():
        rows, _ = estimated_size(session, table)
        if rows > most_rows:
            raise UnsupportedChange(
                f"it has to be re-snapshotted, as {why[table]}, and has about {rows:,} rows",
                where=str(table),
                hint=f"set schema-change.copy-max-rows above {rows} to copy it, {_ELSE[begin.why == 'uncertain']}"
                "or leave it out with tables.exclude",
            )
        notices.append(f"{table} is re-snapshotted, about {rows:,} rows: {why[table]}")
    return notices
