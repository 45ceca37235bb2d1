"""What a live source is asked for beside its batches: copies of tables, and its tables as they are now."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from cdc.errors import SourceError
from cdc.finding import Finding
from cdc.schema import TableId
from cdc.source import Context, Offset, Source, TablesNow
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.snapshot.plan.requests import Requests


class AskedSource(Source):
    """That part of `MySqlSource`."""

    _options: MySqlSourceOptions
    _context: Context
    _streams: Streams

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
            raise SourceError("the pipeline does not capture this table", where=str(table), hint=hint)
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

    def copies_anew(self, table: TableId) -> bool:
        """Whether the options let tables be copied that nobody asked for."""
        return self._options.copies_uncertain(table)

    def copy_anew(self, table: TableId, request: str, reason: str, *, asked: bool) -> None:
        """Leave the request beside those of users."""
        Requests(self._context.store).add(table, request, reason, limited=not asked)
