"""The Doris sink: executors prepare stream loads in Doris, the driver commits their transactions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from cdc.schema import TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context
from connectors.doris import settings
from connectors.doris.catalog import read_table
from connectors.doris.load import Loader
from connectors.doris.options import DorisSinkOptions
from connectors.doris.schemas import DorisSchemas
from connectors.doris.transactions import Handle, Transactions
from connectors.shared.streamload.commits import Commit
from connectors.shared.streamload.dialect import DORIS
from connectors.shared.streamload.sink import LoadSink
from connectors.shared.streamload.targets import Targets, targets_of

if TYPE_CHECKING:
    from connectors.shared.streamload.read_back import LoadedRows


class DorisSink(LoadSink):
    """Loads rows into Doris in two phases. Picklable; connections are opened when needed."""

    server: ClassVar[str] = "Doris"
    replicas: ClassVar[int] = 3
    grants: ClassVar[str] = "GRANT SELECT_PRIV on the database, and what CREATE and ALTER need, to the user"

    def __init__(self, options: DorisSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options = options
        self._transactions = Transactions(settings.client(options), self._retry)
        self._visible = set[str]()
        self._limits = settings.send_limits(options)

    def _loader(self, task: TaskAttempt) -> Loader:
        rules = settings.load_rules(self._options)
        if not rules.two_phase:
            task.note_visible()
        return Loader(
            transactions=self._transactions,
            targets=self._targets,
            labels=self._labels,
            record=self._record.writer(task),
            rows=self._rules,
            rules=rules,
        )

    def _stored(self, table: TableId, schema: TableSchema) -> LoadedRows:
        from connectors.shared.streamload.read_back import LoadedRows

        return LoadedRows(self._sql, schema, self._targets.get(table, schema, -1), DORIS, self._rules)

    @property
    def _targets(self) -> Targets:
        longest = self._options.longest_string
        targets = Targets(self._sql, lambda session, table: read_table(session, table).target(longest))
        return targets_of((self._pipeline, self._store.where(), self._sql.servers, longest), targets)

    def _committer(self, batch: int) -> Commit:
        def commit(table: TableId, handle: Any) -> None:
            self._transactions.commit(table, Handle.from_json(handle))

        return commit

    def _free(self, table: TableId, label: str) -> None:
        self._transactions.free(table, label)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[DorisSchemas]:
        """Open a session with one front end, for schema changes. Driver."""
        with self._session() as session:
            yield DorisSchemas(session, settings.dialect(self._options), self._job_policy, self._wait_until_visible)

    def _wait_until_visible(self, databases: set[str]) -> None:
        """Wait until the loads that this pipeline committed are visible: the copy of a table would miss their rows."""
        recorded = [one for one in self._record.all() if one.table.database in databases]
        waiting = [one for one in recorded if one.label not in self._visible]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cdc-visible") as pool:
            list(pool.map(self._wait_for_load, [one.table.database for one in waiting], [one.label for one in waiting]))
        self._visible = {one.label for one in recorded}

    def _wait_for_load(self, database: str, label: str) -> None:
        self._transactions.wait_until_visible(database, label, self._job_policy)
