"""Requests to a live source beside its batches: snapshots of tables, and its tables as they are now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from cdc.errors import PositionLost, SourceError, TableUnknown
from cdc.finding import Finding
from cdc.schema import TableId
from cdc.source import Context, Offset, Source, TablesNow
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import LogPosition, check_file_position, check_had
from connectors.mysql.server.server_info import ServerInfo, server_info, where_of
from connectors.mysql.snapshot.plan.requests import Requests


class AskedSource(Source):
    """The part of `MySqlSource` that answers requests."""

    _options: MySqlSourceOptions
    _context: Context
    _streams: Streams

    @abstractmethod
    def __init__(self, options: MySqlSourceOptions, context: Context) -> None: ...

    @property
    @abstractmethod
    def _by_name(self) -> MySqlSourceOptions:
        """The options, with patterns that compare names as the server does."""

    @property
    @abstractmethod
    def _wanted(self) -> Callable[[TableId], bool]:
        """Whether a table is captured."""

    def resync(self, table: TableId) -> None:
        """Ask for a table to be copied anew; a running pipeline takes it up by itself."""
        if not self._wanted(table):
            hint = f"it is not among {self._options.tables}"
            raise TableUnknown("the pipeline does not capture this table", where=str(table), hint=hint)
        history = SchemaHistory(self._context.store)
        if table not in history.tables(history.count()):
            hint = "name one as `cdc status` does: database.table"
            raise TableUnknown(
                "the source's log, as far as it was read, has no such table", where=str(table), hint=hint
            )
        Requests(self._context.store).add(table)

    def now(self) -> TablesNow:
        """Reads the captured tables beside the pipeline."""
        from connectors.mysql.snapshot.read.now import ServerNow

        return ServerNow(self._by_name, self._streams)

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Settings, privileges, retention, tables. Opens a session."""
        from connectors.mysql.server.examine import examine

        at = None if committed is None else MySqlOffset.from_json(committed)
        return examine(self._streams.session, lambda: self._by_name, at)

    def captures(self, table: TableId) -> bool:
        """Whether its name is among those that the options say."""
        return self._wanted(table)

    def copies_anew(self, table: TableId) -> bool:
        """Whether it is captured, and the options let tables be copied that nobody asked for."""
        return self._wanted(table) and self._options.copies_uncertain(table)

    def copy_anew(self, table: TableId, request: str, reason: str, *, asked: bool) -> None:
        """Leave the request beside those of users."""
        Requests(self._context.store).add(table, request, reason, limited=not asked)

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset of a pipeline that goes on where another tool is, with its schema history written."""
        try:
            return self._start_at(position)
        except PositionLost as error:
            hint = "run the pipeline without `cdc import`: with scan.startup.mode: initial it copies the tables first"
            raise PositionLost(error.message, where=error.where, hint=hint) from error

    def _start_at(self, position: str) -> tuple[Offset, str]:
        from connectors.mysql.follow.aligned import aligned
        from connectors.mysql.follow.foreign import parse_position

        found = parse_position(position)
        more: dict[str, object] = {"startup_mode": "specific-offset", "specific_offset_gtid_set": None}
        beside = ""
        with self._streams.session() as session:
            info = server_info(session)
            if found.gtids and info.gtid:
                check_had(session, info, found.gtids)
                more["specific_offset_gtid_set"] = found.gtids
                beside = _contradiction(session, info, found.at)
            elif found.at is not None:
                check_file_position(session, info, found.at)
            else:
                raise SourceError("the server has no GTIDs, and the position no file", where=where_of(session))
        if more["specific_offset_gtid_set"] is None and found.at is not None:
            at = aligned(self._streams.at, found.at)
            more |= {"specific_offset_file": at.file, "specific_offset_pos": at.position}
        offset = type(self)(self._options.model_copy(update=more), self._context).initial_offset()
        again = _AGAIN if found.tool == "Debezium" else ""
        return offset, f"{found.tool}, at {MySqlOffset.from_json(offset).position}{beside}{again}"


_AGAIN = (
    " (a connector that is idle has stored the place before its last transaction: that one comes again, and gives a "
    "table without a key its rows twice)"
)


def _contradiction(session: MySqlConnection, info: ServerInfo, at: LogPosition | None) -> str:
    """The words about a file and position that are no place of this server, though it has the GTIDs beside them."""
    try:
        if at is not None:
            check_file_position(session, info, at)
    except PositionLost as error:
        return f"; its GTIDs count, though not {at} beside them: {error.message}"
    return ""
