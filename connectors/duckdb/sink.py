"""The DuckDB sink: executors stage Arrow files, the driver loads a batch and its fence row in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.evolution.session import SchemaSession
from cdc.evolution.table_sink import TableSink
from cdc.finding import Finding
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, StoredTable, TaskAttempt, lacks_batches
from cdc.source import Context
from connectors.duckdb.catalog import DuckDbSchemas, NoFile
from connectors.duckdb.database import Database, DuckDbSession
from connectors.duckdb.fence import Fence
from connectors.duckdb.load import load_batch
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.read_back import FileReader
from connectors.shared.staging.stage import StagingFolder, stage, staged_tables

log = logging.getLogger(__name__)


class DuckDbSink(TableSink[str]):
    """Writes to one DuckDB file. Picklable; the file is open only during `apply` and `commit`."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.EQUAL

    def __init__(self, options: DuckDbSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._database = Database(options, stopping=context.stopping)
        self._pipeline, self._staging = context.pipeline, StagingFolder(context.store)
        self._reader: FileReader | None = None
        self._newest = -1
        """Newest batch seen in the file by this object."""

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SchemaSession[str]]:
        """Open the file; reading does not create a missing one. Driver."""
        if write or self._database.exists:
            with self._database.open(read_only=not write) as session:
                yield DuckDbSchemas(session)
        else:
            yield NoFile(self._database.path)

    def last_committed_batch(self) -> int:
        """Return the last batch recorded in the fence. Driver."""
        if not self._database.exists:
            return -1
        with self._database.open(read_only=True) as session:
            return self._fence(session).batch

    def examine(self) -> Iterator[Finding]:
        """Check the folder, and the file if it exists."""
        return self._database.examine()

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | None:
        """Open the table's rows for reading. The sink cannot be pickled afterwards. Driver."""
        if not self._database.exists:
            return None
        self._reader = self._reader or FileReader(self._database)
        return self._reader.table(table, schema)

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply schema changes, one transaction each. Driver."""
        with self._same_file() as session:
            self._fence(session)
        super().apply(batch, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Stage the rows in one synced file under the state directory. Executor."""
        return stage(self._staging, task, blocks)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Load all rows and the fence row in one transaction; do nothing if the fence has the batch already. Driver.

        Returns counts of deletes that matched no row of a table without a key.
        """
        missed: dict[TableId, int] = {}
        with self._same_file() as session:
            fence = self._fence(session)
            if batch <= fence.batch:
                log.info("batch %d is in %s already", batch, self._database.path)
            else:
                missed = load_batch(session, fence, batch, staged_tables(self._staging, prepared), self._database.path)
                self._newest = batch
        self._staging.clean(batch)
        return {f"delete-without-row {table}": number for table, number in missed.items() if number}

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the staged files of an undecided batch. Driver."""
        self._staging.drop(batch)

    @contextmanager
    def _same_file(self) -> Iterator[DuckDbSession]:
        """Open the file for writing. A deleted file is not recreated: the committed rows would be missing from it."""
        if self._newest >= 0 and not self._database.exists:
            raise SinkError(
                f"it no longer exists, while {self._newest} was committed: it was removed while the pipeline ran",
                where=self._database.path,
                hint="restore the original file; or start over with another --state-dir",
            )
        with self._database.open() as session:
            yield session

    def _fence(self, session: DuckDbSession) -> Fence:
        """Read the file's fence, and check that the file has every batch committed to it. Raises SinkError."""
        fence = Fence(session, self._pipeline)
        if fence.batch < self._newest:
            raise lacks_batches(fence.batch, self._newest, self._database.path)
        self._newest = fence.batch
        return fence
