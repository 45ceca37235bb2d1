"""The StarRocks sink: executors prepare loads in StarRocks, the driver commits them by label."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.evolution.session import SchemaSession
from cdc.evolution.sql_sink import SqlSink
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.shared.sending.sender import SendLimits, send
from connectors.shared.sql.client import Refused, Session, SqlClient
from connectors.starrocks import settings
from connectors.starrocks.client import Transactions
from connectors.starrocks.load import Loader
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.schemas import StarRocksSchemas
from connectors.starrocks.settle import LabelCommit, commit_all, roll_back_leftovers
from connectors.starrocks.staged import StagedCommit, StagedLoader, drop_files, forget_files
from connectors.starrocks.targets import targets_of
from connectors.starrocks.types import SqlType
from connectors.streamload.labels import LabelSpace
from connectors.streamload.patience import Waits

log = logging.getLogger(__name__)

_COMMIT_THREADS = 16
"""Commits wait for the server, not for this machine."""


class StarRocksSink(SqlSink[SqlType]):
    """Loads into StarRocks with two phases. Picklable; connections are opened when they are needed."""

    def __init__(self, options: StarRocksSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._options = options
        self._pipeline: str = context.pipeline
        self._directory = context.store.bulk("")
        self._sql = SqlClient(settings.sql_servers(options))
        self._transactions = Transactions(
            settings.servers(options), settings.transaction_limits(options), settings.packing(options)
        )
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
        forget_files(self._directory, batch)

    def abort(self, batch: int) -> None:
        """Roll back what an earlier run of this pipeline prepared and never decided. Driver."""
        drop_files(self._directory, batch)
        number = roll_back_leftovers(self._transactions, self._sql, self._labels, batch)
        if number:
            log.info("%d loads left over by an earlier run are rolled back", number)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SchemaSession[SqlType]]:
        """A session with one front end. Driver."""
        waits = Waits(self._options.schema_change_timeout_s)
        with self._session() as session:
            yield StarRocksSchemas(session, settings.dialect(self._options), waits)

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
