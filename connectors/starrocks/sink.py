"""The StarRocks sink: executors prepare loads in StarRocks, the driver commits them by label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import SinkUnavailable
from cdc.evolution.session import SchemaSession
from cdc.schema import TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.shared.sending.sender import SendLimits, send
from connectors.shared.streamload.commits import Commit
from connectors.shared.streamload.dialect import STARROCKS
from connectors.shared.streamload.http import HttpClient
from connectors.shared.streamload.loads import Loads
from connectors.shared.streamload.settings import http_servers, row_rules
from connectors.shared.streamload.sink import LoadSink
from connectors.shared.streamload.sql_types import SqlType
from connectors.starrocks import settings
from connectors.starrocks.client import LabelFinishedError, Transactions, TransactionState
from connectors.starrocks.commits import LabelCommit, StagedCommit
from connectors.starrocks.load import Loader
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.schemas import StarRocksSchemas
from connectors.starrocks.staged import StagedLoader, drop_files, forget_files
from connectors.starrocks.targets import targets_of


class StarRocksSink(LoadSink[SqlType]):
    """Loads into StarRocks with two phases. Picklable; connections are opened when they are needed."""

    server: ClassVar[str] = "StarRocks"
    grants: ClassVar[str] = "GRANT SELECT on the tables, and what CREATE and ALTER need, to the user"

    def __init__(self, options: StarRocksSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options = options
        http = HttpClient(http_servers(options))
        self._transactions = Transactions(http, settings.transaction_limits(options), options.packing())

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and prepare every load. Executor."""
        targets = targets_of(self._sql, self._pipeline, self._store)
        rules = row_rules(self._options, max_key_bytes=self._options.key_bytes)
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
            loader = StagedLoader(self._store, targets, self._labels, rules, dead_letters)
        return send(task, blocks, loader, SendLimits(threads=self._options.threads))

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every label, those of a table in log order. Driver."""
        super().commit(batch, prepared)
        forget_files(self._store, batch)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Roll back what an earlier run of this pipeline prepared and never decided. Driver."""
        drop_files(self._store, batch)
        super().abort(batch, noted)

    def _loads(self, table: TableId, schema: TableSchema) -> Loads:
        found = targets_of(self._sql, self._pipeline, self._store).get(table, schema, -1)
        return Loads(found, STARROCKS, row_rules(self._options, max_key_bytes=self._options.key_bytes))

    def _committer(self, batch: int) -> Commit:
        by_label = LabelCommit(self._transactions, self._retry)
        headers = self._options.load_headers()
        from_file = StagedCommit(self._transactions, self._store.bulk(""), headers, batch, self._retry)

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
        if state in (TransactionState.PREPARE, TransactionState.PREPARED):
            hint = "it ends with its timeout; see SHOW PROC '/transactions'"
            raise SinkUnavailable("a load cannot be rolled back", where=f"{table} (label {label})", hint=hint)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SchemaSession[SqlType]]:
        """A session with one front end. Driver."""
        with self._session() as session:
            yield StarRocksSchemas(session, settings.dialect(self._options), self._job_policy)

    @property
    def _in_phases(self) -> bool:
        """Whether StarRocks holds prepared rows."""
        return self._options.delivery_guarantee == "exactly-once"
