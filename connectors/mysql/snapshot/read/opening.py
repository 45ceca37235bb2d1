"""Opens a view of a chunk's rows without a lock, repeatedly, until the concurrent changes can be merged with it.

Executor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc.errors import SchemaUnknown, SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.same_server import AnotherServer
from connectors.mysql.server.server_info import where_of
from connectors.mysql.snapshot.chunk import Chunk, Watermark
from connectors.mysql.snapshot.plan.bounds import condition
from connectors.mysql.snapshot.read.read_settings import Access, ReadSettings
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, ResultStream, RowPackets
from connectors.mysql.snapshot.read.session import ChunkSessions, SessionPool
from connectors.mysql.snapshot.read.view import TableAltered, View, open_view
from connectors.mysql.snapshot.read.window import Unusable, Window, read_window
from connectors.mysql.table import MySqlTable

VIEW_TRIES = 100
"""Maximum views opened until one has a usable window."""
VIEW_PAUSE_S = 0.02


@dataclass(slots=True)
class OpenedView:
    """A view with its window, the invalid dates in that, and the SELECT with its first rows."""

    sessions: ChunkSessions
    view: View
    window: Window
    invalid: Counter[str]
    stream: ResultStream
    first: RowPackets | None


@dataclass(frozen=True, slots=True)
class ViewOpener:
    """Opens views of one chunk. `table` is its definition in the schema history when the chunk was planned."""

    access: Access
    chunk: Chunk
    table: MySqlTable
    settings: ReadSettings
    pool: SessionPool
    clock: Callable[[], float]
    retry: RetryPolicy

    @property
    def _key(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return self.table.primary_key if self.settings.key is None else self.settings.key

    def open(self) -> OpenedView | Watermark:
        """Do everything up to the first row. Retries when the connection breaks."""
        return self.retry.call(self._open_once, f"copying chunk {self.chunk.number} of {self.table.id}")

    def _open_once(self) -> OpenedView | Watermark:
        sessions = self.pool.acquire(self.access.session, self.settings.lock_wait_s)
        try:
            server = self.settings.server
            if not server or sessions.info.identity == server:
                return self._first_rows(sessions)
            unread = self._unread(None)
        except TableAltered as altered:
            unread = self._unread(altered.position)
        except AnotherServer:
            unread = self._unread(None)
        except BaseException:
            sessions.close()
            raise
        self.pool.release(sessions)
        return unread

    def _first_rows(self, sessions: ChunkSessions) -> OpenedView:
        """Open views until one is usable. Raises TableAltered."""
        reason = ""
        pauses = Backoff(replace(self.retry, first_pause_s=VIEW_PAUSE_S, longest_pause_s=VIEW_PAUSE_S), "views")
        for _ in range(VIEW_TRIES):
            # Without its window a chunk counts as of `low`, which must then not be an old position.
            note = {} if self.settings.skip_window else self.chunk.note
            view = open_view(
                sessions, self.table, note=note, margin_s=self.settings.margin_s, clock=self.clock,
                retry=self.retry, is_old=self._is_old,
            )  # fmt: skip
            try:
                self._check_age(view)
                invalid: Counter[str] = Counter()
                window = self._window(view, invalid)
                stream = self._stream(sessions, view)
                return OpenedView(sessions, view, window, invalid, stream, stream.read())
            except (Unusable, DefinitionChanged) as error:
                reason = str(error)
                if not pauses.pause(reason):
                    break
        raise SourceUnavailable(
            f"{VIEW_TRIES} views were opened at most, none at a quiet moment: {reason}",
            where=self.where(sessions),
            hint="give the table a primary key, or copy it when it is written to less",
        )

    def where(self, sessions: ChunkSessions) -> str:
        """Return the table and the server that is asked, for errors."""
        return f"{self.table.id} on {where_of(sessions.side)}"

    def position(self, view: View) -> LogPosition:
        """Return the position at which the chunk's rows are the table's."""
        return view.low if self.settings.skip_window and view.low is not None else view.high

    def sequence(self, at: LogPosition) -> int:
        """Return the sequence of a position."""
        return sequence_of(at.file, at.position, self.settings.files_ahead)

    def _check_age(self, view: View) -> None:
        """Raise Unusable for a view from before `least`. MariaDB's log is a moment ahead of what views show."""
        at = self.position(view)
        if self._is_old(at):
            raise Unusable(f"the view stands at {at}, before what was read of the log")

    def _is_old(self, at: LogPosition) -> bool:
        return self.sequence(at) < self.settings.least

    def _window(self, view: View, invalid: Counter[str]) -> Window:
        """Read the changes made while the view was opened; counts their invalid dates in `invalid`."""
        if view.low == view.high or (self.settings.skip_window and view.low is not None):
            return Window(self._key)
        stream = self.access.after(view.gtids or "") if view.low is None else self.access.at(view.low)

        def add(reason: str, number: int) -> None:
            invalid[reason] += number

        try:
            return read_window(stream, view.high, self.table, self._key, self.settings, add)
        except SchemaUnknown as error:  # the window also has rows from before an ALTER
            raise Unusable(f"the table was altered: {error.message}") from error

    def _stream(self, sessions: ChunkSessions, view: View) -> ResultStream:
        try:
            return ResultStream(sessions.reader, self._select(view), str(self.table.id))
        except SourceError as error:
            if not self.settings.where or error.retryable:
                raise
            hint = f"is the filter right? {self.settings.where}"
            raise SourceError(error.message, where=error.where, hint=hint) from error

    def _select(self, view: View) -> str:
        text = condition(self.chunk, self.table)
        # The line feed terminates a comment at the end of the filter.
        text = f"({text}) AND ({self.settings.where}\n)" if self.settings.where else text
        return select_from(self.table, text, versions=view.versioned)

    def _unread(self, altered: LogPosition | None) -> Watermark:
        """Return the watermark of a chunk that is to be read later, at a position after `least` at the earliest.

        The table was found altered at that position, or (None) the server is another one.
        """
        at = LogPosition("", 0) if altered is None else altered
        sequence = 0 if altered is None else self.sequence(altered)
        return Watermark(self.chunk.number, False, max(sequence, self.settings.least), at.file, at.position, 0)
