"""The StarRocks sink: executors prepare loads in StarRocks, the driver commits them by label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import SinkUnavailable
from cdc.faults import reached
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.shared.sending.sender import SendLimits, send
from connectors.shared.sql.client import Session
from connectors.starrocks import settings
from connectors.starrocks.alter import Planner, Statement, Step
from connectors.starrocks.catalog import Layout, read_layout, read_table
from connectors.starrocks.client import LabelFinishedError, State, Transactions
from connectors.starrocks.commits import LabelCommit
from connectors.starrocks.jobs import Runner
from connectors.starrocks.load import Loader
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.staged import StagedCommit, StagedLoader, drop_files, forget_files
from connectors.starrocks.targets import targets_of
from connectors.streamload import applied
from connectors.streamload.commits import Commit
from connectors.streamload.http import HttpClient
from connectors.streamload.schema_changes import SchemaWork
from connectors.streamload.settings import http_servers, window_rules
from connectors.streamload.sink import LoadSink


class StarRocksSink(LoadSink):
    """Loads into StarRocks with two phases. Picklable; connections are opened when they are needed."""

    server: ClassVar[str] = "StarRocks"
    grants: ClassVar[str] = "GRANT SELECT on the tables, and what CREATE and ALTER need, to the user"

    def __init__(self, options: StarRocksSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options = options
        http = HttpClient(http_servers(options))
        self._transactions = Transactions(http, settings.transaction_limits(options), options.packing())

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are; waits for their jobs. Driver."""
        record = applied.Applied(self._store, changes)
        if record.done == len(changes):
            return
        with self._session() as session:
            layout = self._layout(session, changes, self._runner(session))
            planner = Planner(layout, settings.table_rules(self._options))
            SchemaWork(planner.steps, self._run, self._session).carry_out(session, record, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and prepare every load. Executor."""
        targets = targets_of(self._sql, self._pipeline, self._directory)
        rules = window_rules(self._options, max_key_bytes=self._options.key_bytes)
        dead_letters = self._options.dead_letters
        loader: Loader | StagedLoader
        if self._in_phases:
            loader = Loader(
                transactions=self._transactions,
                targets=targets,
                labels=self._labels,
                record=self._record.writer(task),
                headers=self._options.load_headers(),
                rules=rules,
                retry=self._retry,
                dead_letters=dead_letters,
            )
        else:
            loader = StagedLoader(self._directory, targets, self._labels, rules, dead_letters)
        return send(task, blocks, loader, SendLimits(threads=self._options.threads))

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every label, those of a table in log order. Driver."""
        super().commit(batch, prepared)
        forget_files(self._directory, batch)

    def abort(self, batch: int) -> None:
        """Roll back what an earlier run of this pipeline prepared and never decided. Driver."""
        drop_files(self._directory, batch)
        super().abort(batch)

    def _committer(self, batch: int) -> Commit:
        by_label = LabelCommit(self._transactions, self._retry)
        headers = self._options.load_headers()
        from_file = StagedCommit(self._transactions, self._directory, headers, batch, self._retry)

        def commit(table: TableId, handle: Any) -> None:
            # The option may have changed since the batch was prepared.
            (from_file if "file" in handle else by_label)(table, handle)

        return commit

    def _free(self, table: TableId, label: str) -> None:
        self._retry.call(lambda: self._freed_once(table, label), f"{table}: rolling back the load {label}")

    def _freed_once(self, table: TableId, label: str) -> None:
        try:
            state = self._transactions.clear(table, label)
        except LabelFinishedError:
            return  # somebody committed it
        if state in (State.PREPARE, State.PREPARED):
            hint = "it ends with its timeout; see SHOW PROC '/transactions'"
            raise SinkUnavailable("a load cannot be rolled back", where=f"{table} (label {label})", hint=hint)

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
        return Runner(session, self._job_policy)

    @property
    def _in_phases(self) -> bool:
        """Whether StarRocks holds prepared rows."""
        return self._options.delivery_guarantee == "exactly-once"

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
