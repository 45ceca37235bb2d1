"""The Doris sink: executors prepare stream loads in Doris, the driver commits their transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.evolution.session import SchemaSession
from cdc.schema import TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.doris import settings
from connectors.doris.load import Loader
from connectors.doris.options import DorisSinkOptions
from connectors.doris.schemas import DorisSchemas
from connectors.doris.targets import targets_of
from connectors.doris.transactions import Handle, Transactions
from connectors.shared.sending.sender import send
from connectors.shared.streamload.commits import Commit
from connectors.shared.streamload.dialect import DORIS
from connectors.shared.streamload.loads import Loads
from connectors.shared.streamload.settings import row_rules
from connectors.shared.streamload.sink import LoadSink
from connectors.shared.streamload.sql_types import SqlType


class DorisSink(LoadSink[SqlType]):
    """Loads into Doris with two phases. Picklable; connections are opened when they are needed."""

    server: ClassVar[str] = "Doris"
    replicas: ClassVar[int] = 3
    grants: ClassVar[str] = "GRANT SELECT_PRIV on the database, and what CREATE and ALTER need, to the user"

    def __init__(self, options: DorisSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options = options
        self._transactions = Transactions(settings.client(options), self._retry)
        self._visible = set[str]()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Load the rows and leave every load prepared. Executor."""
        rules = settings.load_rules(self._options)
        if not rules.two_phase:
            task.note_visible()
        loader = Loader(
            transactions=self._transactions,
            targets=targets_of(self._sql, self._pipeline, self._options.longest_string),
            labels=self._labels,
            record=self._record.writer(task),
            rows=row_rules(self._options),
            rules=rules,
        )
        return send(task, blocks, loader, settings.send_limits(self._options))

    def _loads(self, table: TableId, schema: TableSchema) -> Loads:
        targets = targets_of(self._sql, self._pipeline, self._options.longest_string)
        return Loads(targets.get(table, schema), DORIS, row_rules(self._options))

    def _committer(self, batch: int) -> Commit:
        def commit(table: TableId, handle: Any) -> None:
            self._transactions.commit(table, Handle.from_json(handle))

        return commit

    def _free(self, table: TableId, label: str) -> None:
        self._transactions.free(table, label)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SchemaSession[SqlType]]:
        """A session with one front end. Driver."""
        with self._session() as session:
            yield DorisSchemas(session, settings.dialect(self._options), self._job_policy, self._wait_until_visible)

    def _wait_until_visible(self, databases: set[str]) -> None:
        """Wait for what this pipeline has committed: a copy of a table would miss rows that are not visible yet."""
        recorded = [one for one in self._record.all() if one.table.database in databases]
        waiting = [one for one in recorded if one.label not in self._visible]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cdc-visible") as pool:
            list(pool.map(self._wait_for_load, [one.table.database for one in waiting], [one.label for one in waiting]))
        self._visible = {one.label for one in recorded}

    def _wait_for_load(self, database: str, label: str) -> None:
        self._transactions.wait_until_visible(database, label, self._job_policy)
