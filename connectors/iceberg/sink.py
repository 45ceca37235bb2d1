"""The Iceberg sink: executors write data files, the driver commits a snapshot per table and batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.finding import Finding, ok, warning
from cdc.schema import TableId, TableSchema
from cdc.sink import StoredTable, TaskAttempt
from cdc.source import Context
from connectors.iceberg.commits import LakeCommits
from connectors.iceberg.expired import ExpiredFiles
from connectors.iceberg.library import Catalog, load
from connectors.iceberg.load import Loader
from connectors.iceberg.options import IcebergSinkOptions
from connectors.iceberg.rules import IcebergRules
from connectors.iceberg.session import IcebergSession
from connectors.iceberg.tables import find_table
from connectors.iceberg.upkeep import Upkeep
from connectors.shared.lake.sink import LakeSink


class IcebergSink(LakeSink):
    """Writes the tables of one catalog. Picklable; each process opens the catalog when first needed."""

    name: ClassVar[str] = "Iceberg"

    def __init__(self, options: IcebergSinkOptions, context: Context) -> None:
        self._options, self._pipeline = options, context.pipeline
        self._catalog = Catalog(options.catalog_properties(), options.secret_names())
        retry = context.retry_policy(options.retry_timeout_s)
        folder = context.store.bulk("keys")
        commits = LakeCommits(self._catalog, self._pipeline, options.threads, retry, folder)
        self._expired = ExpiredFiles(context.store.bulk("expired"), options.snapshot_age_s)
        files, snapshots = options.compact_files, options.snapshots
        upkeep = Upkeep(self._catalog, self._pipeline, files, snapshots, folder, self._expired)
        super().__init__(options, context, commits, upkeep, flush_bytes=options.flush_size)

    def check(self) -> None:
        """Check that the library is installed and the catalog answers. Driver."""
        catalog = self._catalog
        with catalog.guard(catalog.place):
            catalog.open().list_namespaces()

    def warm(self) -> None:
        """Load the library. Executor."""
        load()

    def _loader(self, task: TaskAttempt) -> Loader:
        return Loader(self._catalog, self._pipeline, self._keyless, task.note)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the noted files of a batch that was never decided. Driver."""
        paths = [path for names in noted for path in names]
        if paths:
            self._catalog.delete_files(paths)

    def examine(self) -> Iterator[Finding]:
        """Report on the library and the catalog, and tell when compaction is off."""
        load()
        import pyiceberg

        yield ok("package", f"pyiceberg {pyiceberg.__version__}")
        catalog = self._catalog
        if not catalog.exists:
            yield ok("catalog", f"{catalog.place}: is made with the first table")
            return
        with catalog.guard(catalog.place):
            yield ok("catalog", f"{catalog.place}: {len(catalog.open().list_namespaces())} namespaces")
        if self._options.compaction == "off":
            yield warning(
                "compaction", "is off", "let another engine compact the tables, or reads get slower and slower"
            )

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The rows of a table, for `cdc verify`. Any process."""
        from connectors.iceberg.read_back import LakeRows

        found = find_table(self._catalog, table)
        if found is None:
            return None
        if not found.key:
            return "a table without a key only grows"
        return LakeRows(self._catalog, found, schema)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[IcebergSession]:
        """Open a session with the catalog, for schema changes. Driver."""
        rules = IcebergRules(self._options.table_properties(), self._options.partitions())
        yield IcebergSession(self._catalog, rules, self._pipeline, self._expired)
