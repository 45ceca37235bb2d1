"""The StarRocks sink: executors prepare loads in StarRocks, the driver commits them by label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from cdc.schema import TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.shared.streamload.commits import Commit
from connectors.shared.streamload.dialect import STARROCKS
from connectors.shared.streamload.sink import LoadSink
from connectors.shared.streamload.targets import Targets, targets_of
from connectors.starrocks import settings
from connectors.starrocks.catalog import read_target, read_targets
from connectors.starrocks.commits import LabelCommit, StagedCommit
from connectors.starrocks.load import Loader
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.schemas import StarRocksSchemas
from connectors.starrocks.staged import StagedLoader, load_files

if TYPE_CHECKING:
    from connectors.shared.streamload.read_back import LoadedRows


class StarRocksSink(LoadSink):
    """Loads rows into StarRocks in two phases. Picklable; connections are opened when needed."""

    server: ClassVar[str] = "StarRocks"
    grants: ClassVar[str] = "GRANT SELECT on the tables, and what CREATE and ALTER need, to the user"

    def __init__(self, options: StarRocksSinkOptions, context: Context) -> None:
        super().__init__(options, context)
        self._options, self._staging = options, load_files(context.store)
        self._transactions = settings.transactions(options)
        self._by_label = LabelCommit(self._transactions, self._retry)

    def _loader(self, task: TaskAttempt) -> Loader | StagedLoader:
        dead_letters = self._options.dead_letters
        if not self._in_phases:
            return StagedLoader(self._staging, self._targets, self._labels, self._rules, dead_letters)
        return Loader(
            transactions=self._transactions,
            targets=self._targets,
            labels=self._labels,
            record=self._record.writer(task),
            headers=self._options.load_headers(),
            rules=self._rules,
            retry=self._retry,
            dead_letters=dead_letters,
        )

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every load by its label; the loads of one table in the order of the log. Driver."""
        super().commit(batch, prepared)
        self._staging.clean(batch)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Roll back the loads that an earlier run of this pipeline prepared without deciding the batch. Driver."""
        self._staging.drop(batch)
        super().abort(batch, noted)

    def _stored(self, table: TableId, schema: TableSchema) -> LoadedRows:
        from connectors.shared.streamload.read_back import LoadedRows

        return LoadedRows(self._sql, schema, self._targets.get(table, schema, -1), STARROCKS, self._rules)

    @property
    def _targets(self) -> Targets:
        targets = Targets(self._sql, read_target, read_targets)
        return targets_of((self._pipeline, self._store.where(), self._sql.servers), targets)

    def _committer(self, batch: int) -> Commit:
        headers = self._options.load_headers()
        from_file = StagedCommit(self._transactions, self._staging, headers, batch, self._retry)

        def commit(table: TableId, handle: Any) -> None:
            # The handle decides, because the option may have changed since the batch was prepared.
            (from_file if "file" in handle else self._by_label)(table, handle)

        return commit

    def _free(self, table: TableId, label: str) -> None:
        self._by_label.free(table, label)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[StarRocksSchemas]:
        """Open a session with one front end, for schema changes. Driver."""
        with self._session() as session:
            yield StarRocksSchemas(session, settings.dialect(self._options), self._job_policy)

    @property
    def _in_phases(self) -> bool:
        """Whether StarRocks keeps prepared rows until the commit."""
        return self._options.delivery_guarantee == "exactly-once"
