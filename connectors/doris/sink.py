"""The Doris sink: executors prepare stream loads in Doris, the driver commits their transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.faults import reached
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.doris import settings
from connectors.doris.alter import Planner, Step
from connectors.doris.catalog import Layout
from connectors.doris.jobs import Runner
from connectors.doris.load import Loader
from connectors.doris.options import DorisSinkOptions
from connectors.doris.targets import targets_of
from connectors.doris.transactions import Handle, Transactions
from connectors.shared.sending.sender import send
from connectors.shared.sql.client import Session
from connectors.streamload import applied
from connectors.streamload.commits import Commit
from connectors.streamload.schema_changes import SchemaWork
from connectors.streamload.settings import window_rules
from connectors.streamload.sink import LoadSink


class DorisSink(LoadSink):
    """Loads into Doris with two phases. Picklable; connections are opened when they are needed."""

    server: ClassVar[str] = "Doris"
    grants: ClassVar[str] = "GRANT SELECT_PRIV on the database, and what CREATE and ALTER need, to the user"

    def __init__(self, options: DorisSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options = options
        self._transactions = Transactions(settings.client(options), self._retry)
        self._visible = set[str]()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are; waits for their jobs. Driver."""
        record = applied.Applied(self._store, changes)
        if record.done == len(changes):
            return
        with self._session() as session:
            layout = Layout(session)
            self._wait_for_earlier_work(self._runner(session), layout, changes)
            planner = Planner(layout, settings.ddl_rules(self._options))
            work = SchemaWork(lambda change, _: planner.steps(change), self._run, self._session)
            work.carry_out(session, record, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and leave every load prepared. Executor."""
        loader = Loader(
            transactions=self._transactions,
            targets=targets_of(self._sql, self._pipeline, self._options.longest_string),
            labels=self._labels,
            record=self._record.writer(task),
            rows=window_rules(self._options),
            rules=settings.load_rules(self._options),
        )
        return send(task, blocks, loader, settings.send_limits(self._options))

    def _committer(self, batch: int) -> Commit:
        def commit(table: TableId, handle: Any) -> None:
            self._transactions.commit(table, Handle.from_json(handle))

        return commit

    def _free(self, table: TableId, label: str) -> None:
        self._transactions.free(table, label)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        with self._session() as session:
            actual = Layout(session).get(table)
        return None if actual is None else actual.schema()

    def statements(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements `apply` would run now. Driver."""
        with self._session() as session:
            planner = Planner(Layout(session), settings.ddl_rules(self._options))
            return [step.sql for change in changes for step in planner.steps(change) if step.doubt is None]

    def _run(self, session: Session, table: TableId, steps: Iterable[Step]) -> None:
        runner = self._runner(session)
        for step in steps:
            runner.run(table, step)
            reached("mid-apply", self._next_batch)

    def _runner(self, session: Session) -> Runner:
        return Runner(session, self._job_policy)

    def _wait_for_earlier_work(self, runner: Runner, layout: Layout, changes: Sequence[SchemaChange]) -> None:
        """Jobs that were started and loads that were committed show in the tables only when they are through."""
        tables = {change.table for change in changes}
        tables |= {change.new_table for change in changes if isinstance(change, RenameTable)}
        there = sorted(table for table in tables if layout.exists(table))
        self._wait_until_visible({table.database for table in there})
        runner.wait_for_running(there)

    def _wait_until_visible(self, databases: set[str]) -> None:
        """Wait for what this pipeline has committed: a copy of a table would miss rows that are not visible yet."""
        recorded = [one for one in self._record.all() if one.table.database in databases]
        asked = [one for one in recorded if one.label not in self._visible]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cdc-visible") as pool:
            list(pool.map(self._wait_for_load, [one.table.database for one in asked], [one.label for one in asked]))
        self._visible = {one.label for one in recorded}

    def _wait_for_load(self, database: str, label: str) -> None:
        self._transactions.wait_until_visible(database, label, self._job_policy)
