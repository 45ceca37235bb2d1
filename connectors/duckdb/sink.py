"""The DuckDB sink: executors stage Arrow files, the driver loads a batch and its fence row in one transaction."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from functools import partial

import duckdb

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, CommitFailed
from cdc.faults import reached
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.schema_json import change_to_json
from cdc.sink import Prepared, Sink, Task
from cdc.source import Context
from connectors.duckdb.catalog import Layout, read_layout
from connectors.duckdb.database import Database, Names, Session, first_line
from connectors.duckdb.ddl import Planner
from connectors.duckdb.fence import Fence
from connectors.duckdb.load import Staged, load
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.stage import batch_folder, read_staged, stage

_REFUSALS = (
    duckdb.BinderException, duckdb.CatalogException, duckdb.ConstraintException, duckdb.ConversionException,
    duckdb.DependencyException, duckdb.InvalidInputException, duckdb.InvalidTypeException,
    duckdb.NotImplementedException, duckdb.OutOfRangeException,
)  # fmt: skip
"""What DuckDB says when a statement cannot be carried out on this table, as against a file that fails."""

log = logging.getLogger(__name__)


class DuckDbSink(Sink):
    """Writes into one DuckDB file. Picklable; the file is open only during `apply` and `commit`."""

    def __init__(self, options: DuckDbSinkOptions, context: Context) -> None:
        self._database = Database(options)
        self._pipeline, self._directory = context.pipeline, context.store.bulk("")

    def apply(self, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes: one transaction for all of them. Driver.

        What was applied is noted beside the fence until the batch commits, so that a repeat does nothing: the tables
        alone cannot tell a swap of names from one that is still to come.
        """
        digest = _digest(changes)
        with self._database.open() as session:
            fence = Fence(session, self._pipeline)
            if fence.applied == digest:
                return
            # Conversions between local time and instants are in UTC, whatever the machine's zone.
            session.rows("SET TimeZone = 'UTC'")
            with session.transaction():
                for change, statement in Planner(read_layout(session), session.names).statements(changes):
                    _execute(session, change, statement)
                fence.write(fence.batch, digest)
                reached("mid-apply", fence.batch + 1)

    def prepare(self, task: Task, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Stage the rows in one synced file under the state directory. Executor."""
        return stage(self._directory, task, blocks)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Load all rows and the fence row in one transaction, or do nothing when the fence is there. Driver.

        Counts deletes of rows that a table without a key does not have.
        """
        missed: dict[TableId, int] = {}
        with self._database.open() as session:
            fence = Fence(session, self._pipeline)
            if batch <= fence.batch:
                log.info("batch %d is in %s already", batch, self._database.path)
            else:
                missed = self._load(session, fence, batch, self._staged(prepared))
        self._clean(batch)
        return {f"delete-without-row {table}": number for table, number in missed.items() if number}

    def abort(self, batch: int) -> None:
        """Remove the staged files of a batch that was never decided. Driver."""
        shutil.rmtree(batch_folder(self._directory, batch), ignore_errors=True)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        actual = self._actual()[0].get(table)
        return None if actual is None else actual.schema()

    def statements(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements `apply` would run now. Driver."""
        layout, names = self._actual()
        return [statement for _, statement in Planner(layout, names).statements(changes)]

    def _actual(self) -> tuple[Layout, Names]:
        if not self._database.exists:
            return Layout(), Names.of_file(self._database.path)
        with self._database.open(read_only=True) as session:
            return read_layout(session), session.names

    def _staged(self, prepared: Sequence[Prepared]) -> list[Staged]:
        tables: dict[TableId, list[Prepared]] = {}
        for handle in prepared:
            tables.setdefault(handle.table, []).append(handle)
        return [
            Staged(
                table,
                key=tuple(handles[0].handle["key"]),
                inserts=sum(handle.inserts for handle in handles),
                others=sum(handle.handle["others"] for handle in handles),
                read=partial(read_staged, self._directory, handles),
            )
            for table, handles in tables.items()
        ]

    def _load(self, session: Session, fence: Fence, batch: int, staged: Sequence[Staged]) -> dict[TableId, int]:
        try:
            try:
                return self._load_once(session, fence, batch, staged, careful=False)
            except duckdb.ConstraintException:
                log.info("batch %d inserts rows that are there already: loading it key by key", batch)
                return self._load_once(session, fence, batch, staged, careful=True)
        except (duckdb.IOException, duckdb.TransactionException) as error:
            hint = "free some space, or end what else writes to the file"
            raise CommitFailed(first_line(error), where=self._database.path, hint=hint) from error

    def _load_once(
        self, session: Session, fence: Fence, batch: int, staged: Sequence[Staged], *, careful: bool
    ) -> dict[TableId, int]:
        with session.transaction():
            missed = load(session, staged, careful=careful)
            fence.write(batch)
            reached("mid-commit", batch)
        return missed

    def _clean(self, batch: int) -> None:
        """Remove the staged files of this batch and of older ones that a crash left behind."""
        staging = batch_folder(self._directory, batch).parent
        for folder in staging.glob("*") if staging.exists() else ():
            if folder.name.isdigit() and int(folder.name) <= batch:
                shutil.rmtree(folder, ignore_errors=True)


def _execute(session: Session, change: SchemaChange, statement: str) -> None:
    try:
        session.rows(statement)
    except _REFUSALS as error:
        hint = "change the values or drop the index or view in DuckDB, or start with a new table"
        raise ChangeRefused(first_line(error), where=str(change.table), hint=hint) from error


def _digest(changes: Sequence[SchemaChange]) -> str:
    text = json.dumps([change_to_json(change) for change in changes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
