"""The Doris sink: executors prepare stream loads in Doris, the driver commits their transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.faults import reached
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.source import Context
from connectors.doris import settings
from connectors.doris.alter import Planner, Step
from connectors.doris.catalog import Layout
from connectors.doris.jobs import Runner
from connectors.doris.load import Loader
from connectors.doris.options import DorisSinkOptions
from connectors.doris.settle import Handle, Settler, prepared
from connectors.doris.targets import targets_of
from connectors.shared.sending.sender import send
from connectors.shared.sql.client import Refused, Session, SqlClient
from connectors.streamload import applied
from connectors.streamload.labels import LabelSpace
from connectors.streamload.patience import Waits
from connectors.streamload.schema_changes import SchemaWork

log = logging.getLogger(__name__)


class DorisSink(Sink):
    """Loads into Doris with two phases. Picklable; connections are opened when they are needed."""

    def __init__(self, options: DorisSinkOptions, context: Context) -> None:
        self._options = options
        self._pipeline: str = context.pipeline
        self._store = context.store
        self._client = settings.client(options)
        self._sql = SqlClient(settings.sql_servers(options))
        self._labels = LabelSpace(context.pipeline, options.label_prefix)
        self._next_batch = 0

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

    def check(self) -> None:
        """Log in to a front end. Driver."""
        with self._session() as session:
            session.rows("SELECT 1")

    def warm(self) -> None:
        """Load the encoder's kernels; on a machine's first run this compiles them."""
        from connectors.streamload.warm import warm

        warm()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and leave every load prepared. Executor."""
        loader = Loader(
            client=self._client,
            settler=Settler(self._client),
            sql=self._sql,
            targets=targets_of(self._sql, self._pipeline, self._options.longest_string),
            labels=self._labels,
            rows=settings.window_rules(self._options),
            rules=settings.load_rules(self._options),
        )
        return send(task, blocks, loader, settings.send_limits(self._options))

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every load, those of a table in log order, tables at the same time. Driver."""
        settler, tables = Settler(self._client), dict[TableId, list[Handle]]()
        for item in sorted(prepared, key=lambda item: item.partition):
            tables.setdefault(item.table, []).append(Handle.from_json(item.handle))

        def commit_table(table: TableId) -> None:
            for handle in tables[table]:
                settler.commit(batch, table.database, handle)
                reached("mid-commit", batch)

        with ThreadPoolExecutor(self._options.threads, thread_name_prefix="cdc-commit") as pool:
            for done in [pool.submit(commit_table, table) for table in tables]:
                done.result()
        applied.forget(self._store)
        self._next_batch = batch + 1

    def abort(self, batch: int) -> None:
        """Abort what this pipeline prepared for this batch or a later one and never decided. Driver."""
        self._next_batch = batch
        settler = Settler(self._client)
        with self._session() as session:
            for database, label, txn in prepared(session, self._labels):
                if label.batch >= batch:
                    log.info("aborting the load %s, left over by an earlier run", label.text)
                    settler.abort(database, label.text, txn)

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

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with self._sql.session() as session:
            try:
                yield session
            except Refused as error:
                hint = "GRANT SELECT_PRIV on the database, and what CREATE and ALTER need, to the user"
                raise SinkError(f"Doris refused a query: {error.message}", where=session.server, hint=hint) from error

    def _run(self, session: Session, table: TableId, steps: Iterable[Step]) -> None:
        runner = self._runner(session)
        for step in steps:
            runner.run(table, step)
            reached("mid-apply", self._next_batch)

    def _runner(self, session: Session) -> Runner:
        return Runner(session, Waits(self._options.schema_change_timeout_s))

    def _wait_for_earlier_work(self, runner: Runner, layout: Layout, changes: Sequence[SchemaChange]) -> None:
        """Jobs that were started and loads that were committed show in the tables only when they are through."""
        tables = {change.table for change in changes}
        tables |= {change.new_table for change in changes if isinstance(change, RenameTable)}
        there = sorted(table for table in tables if layout.exists(table))
        runner.wait_until_visible(sorted({table.database for table in there}), self._labels)
        runner.wait_for_running(there)
