"""The Doris sink: executors prepare stream loads in Doris, the driver commits their transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.evolution.session import SchemaSession
from cdc.evolution.sql_sink import SqlSink
from cdc.faults import reached
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.doris import settings
from connectors.doris.load import Loader
from connectors.doris.options import DorisSinkOptions
from connectors.doris.schemas import DorisSchemas
from connectors.doris.settle import Handle, Settler, prepared
from connectors.doris.targets import targets_of
from connectors.doris.types import SqlType
from connectors.shared.sending.sender import send
from connectors.shared.sql.client import Refused, Session, SqlClient
from connectors.streamload.labels import LabelSpace
from connectors.streamload.patience import Waits

log = logging.getLogger(__name__)


class DorisSink(SqlSink[SqlType]):
    """Loads into Doris with two phases. Picklable; connections are opened when they are needed."""

    def __init__(self, options: DorisSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._options = options
        self._pipeline: str = context.pipeline
        self._client = settings.client(options)
        self._sql = SqlClient(settings.sql_servers(options))
        self._labels = LabelSpace(context.pipeline, options.label_prefix)

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

    def abort(self, batch: int) -> None:
        """Abort what this pipeline prepared for this batch or a later one and never decided. Driver."""
        settler = Settler(self._client)
        with self._session() as session:
            for database, label, txn in prepared(session, self._labels):
                if label.batch >= batch:
                    log.info("aborting the load %s, left over by an earlier run", label.text)
                    settler.abort(database, label.text, txn)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SchemaSession[SqlType]]:
        """A session with one front end. Driver."""
        waits = Waits(self._options.schema_change_timeout_s)
        with self._session() as session:
            yield DorisSchemas(session, settings.dialect(self._options), waits, self._labels)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with self._sql.session() as session:
            try:
                yield session
            except Refused as error:
                hint = "GRANT SELECT_PRIV on the database, and what CREATE and ALTER need, to the user"
                raise SinkError(f"Doris refused a query: {error.message}", where=session.server, hint=hint) from error
