"""The StarRocks sink: executors prepare loads in StarRocks, the driver commits them by label."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.faults import reached
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.source import Context
from connectors.shared.sending.sender import SendLimits, send
from connectors.shared.sql.client import Refused, Session, SqlClient
from connectors.starrocks import settings
from connectors.starrocks.alter import Planner, Statement, Step
from connectors.starrocks.catalog import Layout, read_layout, read_table
from connectors.starrocks.client import Transactions
from connectors.starrocks.jobs import Runner
from connectors.starrocks.load import Loader
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.settle import LabelCommit, commit_all, roll_back_leftovers
from connectors.starrocks.staged import StagedCommit, StagedLoader, drop_files, forget_files
from connectors.starrocks.targets import targets_of
from connectors.streamload import applied
from connectors.streamload.labels import LabelSpace
from connectors.streamload.patience import Waits
from connectors.streamload.schema_changes import SchemaWork

log = logging.getLogger(__name__)

_COMMIT_THREADS = 16
"""Commits wait for the server, not for this machine."""


class StarRocksSink(Sink):
    """Loads into StarRocks with two phases. Picklable; connections are opened when they are needed."""

    def __init__(self, options: StarRocksSinkOptions, context: Context) -> None:
        self._options = options
        self._pipeline: str = context.pipeline
        self._store, self._directory = context.store, context.store.bulk("")
        self._sql = SqlClient(settings.sql_servers(options))
        self._transactions = Transactions(
            settings.servers(options), settings.transaction_limits(options), settings.packing(options)
        )
        self._labels = LabelSpace(context.pipeline, options.label_prefix)
        self._next_batch = 0

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are; waits for their jobs. Driver."""
        record = applied.Applied(self._store, changes)
        if record.done == len(changes):
            return
        with self._session() as session:
            layout = self._layout(session, changes, self._runner(session))
            planner = Planner(layout, settings.table_rules(self._options))
            SchemaWork(planner.steps, self._run, self._session).carry_out(session, record, changes)

    def check(self) -> None:
        """Log in to a front end. Driver."""
        with self._session() as session:
            session.rows("SELECT 1")

    def warm(self) -> None:
        """Load the encoder's kernels; on a machine's first run this compiles them."""
        from connectors.streamload.warm import warm

        warm()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and prepare every load. Executor."""
        targets = targets_of(self._sql, self._pipeline, self._directory)
        rules, dead_letters = settings.window_rules(self._options), self._options.dead_letters
        loader: Loader | StagedLoader
        if self._in_phases:
            headers = self._options.load_headers()
            loader = Loader(self._transactions, targets, self._labels, headers, rules, dead_letters)
        else:
            loader = StagedLoader(self._directory, targets, self._labels, rules, dead_letters)
        return send(task, blocks, loader, SendLimits(threads=self._options.threads))

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every label, those of a table in log order. Driver."""
        headers = self._options.load_headers()
        by_label = LabelCommit(self._transactions)
        from_file = StagedCommit(self._transactions, self._directory, headers, batch)

        def commit(table: TableId, handle: Any) -> None:
            # The option may have changed since the batch was prepared.
            (from_file if "file" in handle else by_label)(table, handle)

        commit_all(commit, batch, prepared, max(_COMMIT_THREADS, self._options.threads))
        applied.forget(self._store)
        forget_files(self._directory, batch)
        self._next_batch = batch + 1

    def abort(self, batch: int) -> None:
        """Roll back what an earlier run of this pipeline prepared and never decided. Driver."""
        self._next_batch = batch
        drop_files(self._directory, batch)
        number = roll_back_leftovers(self._transactions, self._sql, self._labels, batch)
        if number:
            log.info("%d loads left over by an earlier run are rolled back", number)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        with self._session() as session:
            actual = read_table(session, table)
        return None if actual is None else actual.schema()

    def statements(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements `apply` would run now. Driver."""
        with self._session() as session:
            layout = self._layout(session, changes)
        planner = Planner(layout, settings.table_rules(self._options))
        return [
            step.sql
            for index, change in enumerate(changes)
            for step in planner.steps(change, changes[index + 1 :])
            if isinstance(step, Statement)
        ]

    def _run(self, session: Session, table: TableId, steps: Iterable[Step]) -> None:
        runner = self._runner(session)
        for step in steps:
            runner.run(step)
            reached("mid-apply", self._next_batch)

    def _runner(self, session: Session) -> Runner:
        return Runner(session, Waits(self._options.schema_change_timeout_s))

    @property
    def _in_phases(self) -> bool:
        """Whether StarRocks holds prepared rows."""
        return self._options.delivery_guarantee == "exactly-once"

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with self._sql.session() as session:
            try:
                yield session
            except Refused as error:
                hint = "GRANT SELECT on the tables, and what CREATE and ALTER need, to the user"
                raise SinkError(
                    f"StarRocks refused a query: {error.message}", where=session.server, hint=hint
                ) from error

    def _layout(self, session: Session, changes: Sequence[SchemaChange], runner: Runner | None = None) -> Layout:
        """What is there in the databases of these changes, once no schema change is under way in their tables."""
        tables = {change.table for change in changes}
        databases = {table.database for table in tables}
        databases |= {change.new_table.database for change in changes if isinstance(change, RenameTable)}
        layout = read_layout(session, databases)
        there = [table for table in tables if layout.get(table)]
        if runner is None or not there:
            return layout
        runner.wait_for_running(there)
        return read_layout(session, databases)  # anew: a job may have ended since the tables were looked at
