"""Resumes a server's log at an offset: checks the log, tracks its schemas, and creates a follower.

Stream reader process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cdc.schema import TableId
from cdc.source import Limits
from cdc.state.store import Store
from connectors.mysql.follow.log_end import LogEndPoller
from connectors.mysql.follow.opened import check_log, note_opened
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import Schemas
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import ServerInfo

if TYPE_CHECKING:
    from connectors.mysql.follow.follower import Follower
    from connectors.mysql.follow.segmenter import Segmenter
    from connectors.mysql.log.stream import BinlogStream, OpenStream
    from connectors.mysql.schema.tracker import Tracker

AHEAD = 4
"""Number of batches that the follower may read ahead."""


class Resumption:
    """Creates the objects with which a run resumes the log. Messages for the user are added to `notices`."""

    def __init__(
        self,
        options: MySqlSourceOptions,
        store: Store,
        streams: Streams,
        captures: Callable[[TableId], bool],
        notices: list[str],
    ) -> None:
        self._options, self._store, self._streams, self._captures = options, store, streams, captures
        self._notices = notices

    def tracker(self, start: MySqlOffset, ordered: frozenset[TableId]) -> tuple[ServerInfo, Tracker]:
        """Return the server, checked to have the log before `start`, and a tracker of its schemas from there.

        Raises SourceError.
        """
        from connectors.mysql.follow.unlogged import Reread, Unlogged

        info = self._check_log(start, start.position, start.gtids)
        tracker = Schemas(self._store, self._options, ordered).tracker(
            start.schemas, self._captures, info.dialect, info.lower_case_table_names, self._notices,
            Reread(self._streams), Unlogged(self._streams),
        )  # fmt: skip
        return info, tracker

    def follower(
        self,
        start: MySqlOffset,
        info: ServerInfo,
        tracker: Tracker,
        limits: Limits | None,
        *,
        until: LogPosition | None,
        log_end: LogEndPoller,
    ) -> Follower:
        """Return a thread, not started yet, that reads the log from `start` on."""
        from connectors.mysql.follow.follower import Follower
        from connectors.mysql.follow.segmenter import Segmenter

        segmenter = Segmenter(
            tracker, self._captures, file=start.position.file, position=start.position.position, limits=limits,
            done=start.gtids,
        )  # fmt: skip
        return Follower(
            self._opener(start, info.identity, segmenter),
            segmenter,
            ahead_bytes=AHEAD * limits.max_bytes if limits is not None else 1 << 30,
            until=until,
            retry=self._streams.retry,
            behind=log_end.poll,
            ends_elsewhere=log_end.is_elsewhere,
        )

    def offset_on_new_server(self, start: MySqlOffset) -> MySqlOffset:
        """Translate an offset to the current server. Raises as `failover.offset_on_new_server`."""
        from connectors.mysql.follow.failover import offset_on_new_server

        return offset_on_new_server(start, self._streams, self._captures)

    def note_opened(self, at: MySqlOffset, seconds: int | None) -> None:
        """Record when the server opened the log file of an offset; None: the file is not new."""
        if seconds is not None:
            note_opened(self._store, at.server, at.position.file, seconds)

    def _opener(self, start: MySqlOffset, server: str, segmenter: Segmenter) -> OpenStream:
        """Return a function that opens the log; when reconnecting, it checks that it is still the log that was read."""
        opened = False

        def open_stream(at: LogPosition, until_end: bool = False) -> BinlogStream:
            nonlocal opened
            if opened:
                self._check_log(start, at, segmenter.files.executed_gtids)
            opened = True
            return self._streams.at(at, until_end, server=server)

        return open_stream

    def _check_log(self, start: MySqlOffset, at: LogPosition, done: str | None) -> ServerInfo:
        return check_log(self._store, self._streams, self._captures, start, at, done)
