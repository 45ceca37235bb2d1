"""Finds chunks of tables ahead of the batches that take them, in a thread of the stream reader process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pymysql

from cdc.errors import CdcError, SourceError, SourceUnavailable
from cdc.retry import Backoff
from cdc.schema import TableId
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import lacks_tablespace
from connectors.mysql.server.information_schema import estimated_size, table_reader
from connectors.mysql.snapshot.chunk import Bound, Chunk
from connectors.mysql.snapshot.plan.key_columns import KeyColumns, key_columns
from connectors.mysql.snapshot.plan.split_points import ChunkSize, Splitter
from connectors.mysql.table import MySqlTable, difference

AHEAD = 256
"""Number of untaken chunks at which the thread waits."""

_LEAST_CHUNK_ROWS = 1000
_ALTERED = frozenset({1049, 1054, 1146, 1176, 1253, 1267})
"""Error numbers: a database, column, table or index does not exist, or a collation does not fit the character set."""


@dataclass(frozen=True, slots=True)
class TableToSplit:
    """A table to split: all of it, or the part above `lower`, by the same columns as before."""

    table: MySqlTable
    lower: Bound | None = None
    columns: tuple[str, ...] = ()
    collations: tuple[str | None, ...] = ()

    @classmethod
    def after(cls, chunk: Chunk, table: MySqlTable) -> TableToSplit:
        """Return the part of the table after a chunk."""
        return cls(table, chunk.upper, chunk.columns, chunk.collations)


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """The next chunk of a table and its row length; `chunk` is None when the server's table has changed meanwhile."""

    table: TableId
    chunk: Chunk | None
    row_bytes: int = 0


class Finder(threading.Thread):
    """Splits tables one after the other. Start it, then use `peek` and `pop`.

    Args:
        streams: opens sessions and holds the retry policy.
        tasks: the tables, in order; one without a tablespace is retried after the others.
        size: of chunks; reduced for tables of long rows so that a chunk has about `chunk_bytes`.
        chosen: returns the split column configured for a table, or None.
    """

    def __init__(
        self,
        streams: Streams,
        tasks: Sequence[TableToSplit],
        size: ChunkSize,
        chunk_bytes: int,
        chosen: Callable[[TableId], str | None],
    ) -> None:
        super().__init__(name="chunk-finder", daemon=True)
        self._session, self._retry, self._chunk_bytes = streams.session, streams.retry, chunk_bytes
        self._tasks, self._size = tuple(tasks), size
        self._chosen = chosen
        self._changed = threading.Condition()
        self._found: deque[FoundChunk] = deque()
        self._error: CdcError | None = None
        self._finished = self._stopped = False

    @property
    def finished(self) -> bool:
        """Whether all chunks were found and taken."""
        with self._changed:
            return self._finished and not self._found

    def peek(self, wait_s: float) -> FoundChunk | None:
        """Return the next chunk without removing it; None when none was found in time or all are taken.

        Raises SourceError.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._found or self._finished, wait_s)
            if not self._found and self._error is not None:
                raise self._error
            return self._found[0] if self._found else None

    def pop(self) -> FoundChunk:
        """Remove the chunk that `peek` returned."""
        with self._changed:
            self._changed.notify_all()
            return self._found.popleft()

    def stop(self) -> None:
        """Stop the thread at its next step."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self) -> None:
        """Run the thread."""
        try:
            self._run()
        except CdcError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - handed to the caller of `peek`
            self._error = SourceError(f"splitting tables into chunks failed: {error!r}")
            self._error.__cause__ = error
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def _run(self) -> None:
        tasks, backoff = list(self._tasks), self._new_backoff()
        while tasks and not self._stopped:
            try:
                connection = self._session()
                try:
                    while tasks and not self._stopped:
                        for task in self._split_table(connection, tasks[0]):
                            tasks[0], backoff = task, self._new_backoff()
                        tasks.pop(0)
                finally:
                    with suppress(pymysql.err.MySQLError, OSError):
                        connection.close()
            except SourceUnavailable as error:
                if lacks_tablespace(error):
                    error.where = f"{tasks[0].table.id} on {error.where}"
                    tasks.append(tasks.pop(0))
                if not backoff.pause(str(error)) and not self._stopped:
                    raise

    def _new_backoff(self) -> Backoff:
        return Backoff(replace(self._retry, stopping=lambda: self._stopped), "splitting tables into chunks")

    def _split_table(self, connection: MySqlConnection, task: TableToSplit) -> Iterator[TableToSplit]:
        """Offer the chunks of a table; yields the remaining task after each."""
        table = task.table
        try:
            rows, row_bytes = estimated_size(connection, table.id)
            key = self._key(connection, task)
            if key is None:
                self._offer(FoundChunk(table.id, None))
                return
            most = max(_LEAST_CHUNK_ROWS, self._chunk_bytes // max(1, row_bytes))
            size = replace(self._size, rows=min(self._size.rows, most))
            for chunk in Splitter(connection, table, key, size, rows).chunks(task.lower):
                if not self._offer(FoundChunk(table.id, chunk, row_bytes)):
                    return
                yield TableToSplit.after(chunk, table)
        except SourceUnavailable:
            raise
        except (SourceError, TypeError, ValueError) as error:
            known = isinstance(error.__cause__, pymysql.err.MySQLError) and error.__cause__.args[0] in _ALTERED
            if not known and not difference(table, table_reader(connection)(table.id)):
                raise
            self._offer(FoundChunk(table.id, None))

    def _key(self, connection: MySqlConnection, task: TableToSplit) -> KeyColumns | None:
        """Return the same split key as before, even if the server's collation has changed.

        None when the key is another one.
        """
        key = key_columns(connection, task.table, self._chosen(task.table.id))
        if task.lower is None:
            return key
        if key.columns[: len(task.columns)] != task.columns:
            return None
        return replace(key, columns=task.columns, collations=task.collations)

    def _offer(self, found: FoundChunk) -> bool:
        with self._changed:
            self._found.append(found)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or len(self._found) < AHEAD)
            return not self._stopped
