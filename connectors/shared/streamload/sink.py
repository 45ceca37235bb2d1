"""The common part of both servers' sinks: components, leftovers of earlier runs, sessions for DDL."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.evolution.table_sink import TableSink
from cdc.finding import Finding, ok, warning
from cdc.schema import TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.shared.sending.sender import BlockLoader, SendLimits, send
from connectors.shared.sql.client import SqlClient, SqlSession, StatementRefused
from connectors.shared.streamload import settings
from connectors.shared.streamload.commits import Commit, commit_all
from connectors.shared.streamload.label_record import LabelRecord, Recorded
from connectors.shared.streamload.options import TABLE_PROPERTIES, LoadSinkOptions, wanted_replicas
from connectors.shared.streamload.sql_types import SqlType

log = logging.getLogger(__name__)

_THREADS = 16
"""Threads for commits and label queries, which wait for the server, not for this machine."""


class LoadSink(TableSink[SqlType]):
    """Executors prepare loads in the server, the driver commits them. Picklable; connections are opened on demand.

    Attributes:
        server: the server's name, for messages.
        grants: hint on the grants needed for schema changes.
        replicas: default replicas of a new table; 0 if the server's own settings decide.
    """

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS
    server: ClassVar[str]
    grants: ClassVar[str]
    replicas: ClassVar[int] = 0

    def __init__(self, options: LoadSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._pipeline: str = context.pipeline
        self._wanted = wanted_replicas(options.table_properties(), self.replicas)
        self._threads = max(_THREADS, options.threads)
        self._retry = settings.retry_policy(options, context)
        self._job_policy = settings.job_policy(options, context)
        self._sql = SqlClient(settings.sql_servers(options), self._retry)
        self._rules = settings.row_rules(options)
        self._limits = SendLimits(threads=options.threads)
        self._record = LabelRecord.of(context, options.label_prefix)
        self._labels = self._record.space

    def check(self) -> None:
        """Log in to a front end, without waiting. Driver."""
        with self._session(wait=False) as session:
            session.rows("SELECT 1")

    def reach(self) -> None:
        """Log in to a front end. Executor."""
        self.check()

    def examine(self) -> Iterator[Finding]:
        """Check the login, the version, and the live back ends if visible to the user."""
        with self._session(wait=False) as session:
            rows = session.rows("SELECT @@version_comment")
            yield ok("connection", f"{self.server} at {session.server}: {rows[0][0] if rows else 'no version'}")
            try:
                backends = session.records("SHOW BACKENDS")
            except StatementRefused as error:
                yield ok("back ends", f"not to be seen by this user: {error.message}")
                return
            alive = sum(str(one.get("Alive")).lower() == "true" for one in backends)
            text = f"{alive} of {len(backends)} alive"
            if alive < self._wanted:
                hint = f"set {TABLE_PROPERTIES}replication_num: {alive}, or start more" if alive else "start one"
                yield warning("back ends", f"{text}; a new table wants {self._wanted}, and is refused", hint)
            elif alive < len(backends):
                yield warning("back ends", text, "see SHOW BACKENDS")
            else:
                yield ok("back ends", text)

    def warm(self) -> None:
        """Load the encoder's kernels; the first run on a machine compiles them."""
        from connectors.shared.streamload.warm import warm

        warm()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows, and leave every load prepared. Executor."""
        return send(task, blocks, self._loader(task), self._limits)

    @abstractmethod
    def _loader(self, task: TaskAttempt) -> BlockLoader:
        """Return the loader that begins the loads of a task."""

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every load, those of a table in log order, tables in parallel. Driver."""
        commit_all(self._committer(batch), batch, prepared, self._threads)
        self._record.prune(batch)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove undecided loads of this pipeline for this batch or later ones. Driver."""
        left = self._record.from_batch(batch)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cdc-abort") as pool:
            for recorded in pool.map(self._free_label, left):
                log.info("the label %s of an earlier run is free", recorded.label)
        self._record.forget_since(batch)

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """Open the table's rows for reading, over SQL. Any process."""
        if self.missing_tables([table]):
            return None
        if not self._rules.deletes:
            return "deletes are not carried out (sink.enable-delete)"
        return self._stored(table, schema)

    @abstractmethod
    def _stored(self, table: TableId, schema: TableSchema) -> StoredTable:
        """Return the rows of an existing table. Raises SinkError."""

    def _free_label(self, recorded: Recorded) -> Recorded:
        self._free(recorded.table, recorded.label)
        return recorded

    @abstractmethod
    def _committer(self, batch: int) -> Commit:
        """Return the function that commits one handle."""

    @abstractmethod
    def _free(self, table: TableId, label: str) -> None:
        """Abort the label's transaction if it has not ended. Raises SinkError."""

    @contextmanager
    def _session(self, *, wait: bool = True) -> Iterator[SqlSession]:
        with self._sql.session(wait=wait) as session:
            try:
                yield session
            except StatementRefused as error:
                reason = f"{self.server} refused a query: {error.message}"
                raise SinkError(reason, where=session.server, hint=self.grants) from error
