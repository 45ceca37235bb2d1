"""The Iceberg sink: executors write data files, the driver commits a snapshot per table and batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.evolution.table_sink import TableSink
from cdc.finding import Finding, ok, warning
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.iceberg.commits import LakeCommits
from connectors.iceberg.expired import ExpiredFiles
from connectors.iceberg.library import Catalog, load
from connectors.iceberg.load import Loader
from connectors.iceberg.options import IcebergSinkOptions
from connectors.iceberg.rules import IcebergRules
from connectors.iceberg.session import IcebergSession
from connectors.iceberg.snapshots import delete_quietly
from connectors.iceberg.tables import CatalogTables
from connectors.iceberg.upkeep import Upkeep
from connectors.shared.lake.turns import UpkeepTurns
from connectors.shared.lake.two_phase import prepare
from connectors.shared.last_image.last_image import KeylessChanges


class IcebergSink(TableSink[str]):
    """Writes tables of one catalog. Picklable; the catalog is opened where it is first needed."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS
    name: ClassVar[str] = "Iceberg"

    def __init__(self, options: IcebergSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._options, self._pipeline = options, context.pipeline
        self._tables = CatalogTables(Catalog(options.catalog_properties(), options.secret_names()))
        retry = RetryPolicy(options.retry_timeout_s, stopping=context.stopping, waiting=context.waiting)
        folder = context.store.bulk("keys")
        self._commits = LakeCommits(self._tables, self._pipeline, options.threads, retry, folder)
        files, kept = options.compact_files, ExpiredFiles(context.store.bulk("expired"), options.snapshot_age_s)
        self._upkeep = Upkeep(self._tables, self._pipeline, files, options.snapshots, folder, kept, UpkeepTurns(files))

    def check(self) -> None:
        """The library is there, and the catalog answers. Driver."""
        catalog = self._tables.catalog
        with catalog.guard(catalog.place):
            catalog.open().list_namespaces()

    def warm(self) -> None:
        """Load the library. Executor."""
        load()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows as data files that no snapshot names. Executor."""
        loader = Loader(self._tables, self._pipeline, KeylessChanges(self._options.keyless), task.note)
        return prepare(task, blocks, loader, flush_bytes=self._options.flush_size, threads=self._options.threads)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """One snapshot per table. Driver."""
        self._commits.commit(batch, prepared)
        if self._options.compaction == "own":
            self._upkeep.after_commit(list(dict.fromkeys(handle.table for handle in prepared)))

    def compact(self, table: TableId) -> str:
        """Merge the files of a table, let old snapshots expire, and say what was done. Driver."""
        return self._upkeep.compact(table)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the noted files, which were never decided. Driver."""
        paths = [path for names in noted for path in names]
        if not paths:
            return
        catalog = self._tables.catalog
        with catalog.guard(catalog.place):
            io = file_io(catalog)
            for path in paths:
                delete_quietly(io, path)

    def examine(self) -> Iterator[Finding]:
        """The library, the catalog, and tables that nobody compacts."""
        load()
        import pyiceberg

        yield ok("package", f"pyiceberg {pyiceberg.__version__}")
        catalog = self._tables.catalog
        if not catalog.is_there:
            yield ok("catalog", f"{catalog.place}: is made with the first table")
            return
        with catalog.guard(catalog.place):
            yield ok("catalog", f"{catalog.place}: {len(catalog.open().list_namespaces())} namespaces")
        if self._options.compaction == "off":
            yield warning(
                "compaction", "is off", "let another engine compact the tables, or reads get slower and slower"
            )

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The table's rows. Any process."""
        from connectors.iceberg.read_back import LakeRows

        found = self._tables.find(table)
        if found is None:
            return None
        if not found.key:
            return "a table without a key only grows"
        return LakeRows(self._tables, found, schema)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[IcebergSession]:
        """A session with the catalog. Driver."""
        rules = IcebergRules(self._options.table_properties(), self._options.partitions())
        yield IcebergSession(self._tables, rules, self._pipeline, self._upkeep.expired)


def file_io(catalog: Catalog) -> Any:
    """The library's file system of the catalog."""
    from pyiceberg.io import load_file_io

    opened = catalog.open()
    return load_file_io({**opened.properties}, catalog.properties.get("warehouse"))
