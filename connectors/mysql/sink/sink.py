"""The sinks `mysql` and `oceanbase`.

Executors stage Arrow files; the driver writes a batch and its fence row to all tables in one transaction. DDL is not
transactional in these servers, so schema changes run before that transaction, each compared with the tables as they
are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.evolution.table_sink import TableSink
from cdc.finding import Finding, error, ok, warning
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.mysql.sink.batch_writer import BatchWriter
from connectors.mysql.sink.catalog import MySqlSchemas
from connectors.mysql.sink.fence import Fence
from connectors.mysql.sink.options import ServerSinkOptions
from connectors.mysql.sink.read_back import ServerRows
from connectors.mysql.sink.session import SinkServer, SinkSession
from connectors.mysql.sink.types import ServerType
from connectors.shared.staging.stage import StagingFolder, stage, staged_tables

log = logging.getLogger(__name__)


class MySqlSink(TableSink[ServerType]):
    """Writes to the tables of one server. Picklable; connections are opened on demand."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.EQUAL

    def __init__(self, options: ServerSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._options, self._pipeline = options, context.pipeline
        self._server = SinkServer.of(options, context.retry_policy(options.retry_timeout_s))
        self._writer, self._staging = BatchWriter(options, context.pipeline), StagingFolder(context.store)
        self._newest = -1
        """Newest batch that the server has told this object to have."""

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[MySqlSchemas]:
        """Open a session with the server. Driver."""
        with self._server.session() as session:
            yield MySqlSchemas(session, self._options.metadata_database, self._server.retry)

    def check(self) -> None:
        """Log in and create the fence table. Driver. Raises SinkError."""
        with self._server.session(wait=False) as session:
            self._fence(session).create()

    def last_committed_batch(self) -> int:
        """Return the last batch recorded in the fence. Driver."""
        with self._server.session() as session:
            return self._fence(session).read()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply schema changes. Driver."""
        self._writer.forget_tables()
        super().apply(batch, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Stage the rows in one synced file under the state directory. Executor."""
        positions = self._options.rejected_values == "dead-letter"
        return stage(self._staging, task, blocks, positions=positions)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Write all rows and the fence row in one transaction; do nothing if the fence has the batch already. Driver.

        Returns counts of deletes that matched no row of a table without a key, and of rows sent to the dead letters. If
        the answer to a commit is lost, the next call waits for the lock on the fence row and so learns the outcome.
        Raises SinkError for a row that a table refuses and that may not be skipped; nothing is written then.
        """
        counts: Mapping[str, int] = {}
        with self._server.session() as session:
            fence = self._fence(session)
            fence.create()
            with session.transaction():
                found = fence.lock(self._newest)
                if batch <= found:
                    log.info("batch %d is in %s already", batch, session.where)
                    counts = fence.counts(batch)
                else:
                    counts = self._writer.write(session, batch, staged_tables(self._staging, prepared))
                    fence.write(batch, counts)
        self._newest = max(found, batch)
        self._writer.committed()
        self._staging.clean(batch)
        return dict(counts)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the staged files of an undecided batch. Driver."""
        self._staging.drop(batch)

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | None:
        """Open the table's rows for reading. Any process."""
        return ServerRows.open(self._server, table, schema)

    def examine(self) -> Iterator[Finding]:
        """Check the version, LOAD DATA LOCAL, durability of commits and the fence."""
        with self._server.session(wait=False) as session:
            yield from examine(session, self._fence(session))

    def _fence(self, session: SinkSession) -> Fence:
        return Fence(session, self._options.metadata_database, self._pipeline)


def examine(session: SinkSession, fence: Fence) -> Iterator[Finding]:
    """Check the version, LOAD DATA LOCAL, durability of commits, and whether the fence can be written."""
    yield ok("version", f"{session.flavor} {session.version}")
    yield from _examine_files(session)
    yield from _examine_durability(session)
    try:
        fence.create()
        yield ok("fence", f"{fence.database}.commits can be written")
    except SinkError as refused:
        yield error("fence", refused.message, refused.hint)


def _examine_files(session: SinkSession) -> Iterator[Finding]:
    if session.local_files:
        yield ok("load", "rows are written by LOAD DATA LOCAL")
    elif session.flavor == "oceanbase":
        yield ok("load", "rows are written by INSERT: LOAD DATA is no part of a transaction in OceanBase")
    else:
        hint = "SET GLOBAL local_infile = ON makes large batches 2 to 5 times faster"
        yield warning("load", "local_infile is OFF: rows are written by INSERT", hint)


def _examine_durability(session: SinkSession) -> Iterator[Finding]:
    if session.flavor == "oceanbase":
        return
    flush = int(session.rows("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")[0][0])
    if flush == 1:
        yield ok("durability", "a commit survives a crash of the server")
    else:
        hint = "SET GLOBAL innodb_flush_log_at_trx_commit = 1"
        yield warning("durability", f"innodb_flush_log_at_trx_commit is {flush}: a crash may lose commits", hint)
