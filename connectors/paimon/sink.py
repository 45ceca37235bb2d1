"""The Paimon sink: executors write data files, the driver commits a snapshot per table and batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.evolution.table_sink import TableSink
from cdc.finding import Finding, ok
from cdc.retry import RetryPolicy
from cdc.schema import CreateTable, SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.paimon.attempts import CommitAttempts, Place
from connectors.paimon.buckets import compile_kernel
from connectors.paimon.commits import LakeCommits, leftover_files
from connectors.paimon.dialect import PaimonDialect
from connectors.paimon.handles import Files
from connectors.paimon.library import VERSIONS, Catalog, check_versions, load
from connectors.paimon.load import Loader
from connectors.paimon.object_store import check_bucket
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.schemas import PaimonSchemas
from connectors.paimon.tables import CatalogTables
from connectors.paimon.upkeep.upkeep import Upkeep
from connectors.shared.lake.turns import UpkeepTurns
from connectors.shared.lake.two_phase import prepare
from connectors.shared.last_image.last_image import KeylessChanges

log = logging.getLogger(__name__)


class PaimonSink(TableSink[str]):
    """Writes tables of one catalog. Picklable; the catalog is opened where it is first needed."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS
    name: ClassVar[str] = "Paimon"

    def __init__(self, options: PaimonSinkOptions, context: Context) -> None:
        super().__init__(context)
        self._options, self._pipeline = options, context.pipeline
        self._tables = CatalogTables(Catalog(options.catalog_options()))
        self._user = f"{options.user_prefix}-{context.pipeline}"
        retry = RetryPolicy(options.retry_timeout_s, stopping=context.stopping, waiting=context.waiting)
        self._commits = LakeCommits(self._tables, self._user, options.threads, retry)
        self._attempts = CommitAttempts(context.store)
        files = options.compact_files
        self._upkeep = Upkeep(self._tables, self._pipeline, self._user, files, UpkeepTurns(files))

    def check(self) -> None:
        """The packages are there, and the catalog answers. Driver."""
        check_versions()
        catalog = self._tables.catalog
        check_bucket(catalog.options)
        with catalog.guard(catalog.place):
            catalog.open().list_databases()

    def warm(self) -> None:
        """Load the packages and the kernels. Executor."""
        load()
        compile_kernel()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes; tables that were there before are taken over. Driver."""
        for table in dict.fromkeys(change.table for change in changes if isinstance(change, CreateTable)):
            found = self._tables.find(table)
            if found is not None:
                self._tables.claim(found, self._pipeline)
        super().apply(batch, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows as data files that no snapshot names. Executor."""
        keyless = KeylessChanges(self._options.keyless)
        loader = Loader(self._tables, self._pipeline, keyless, self._attempts.note(task))
        return prepare(task, blocks, loader, flush_bytes=self._options.flush_size, threads=self._options.threads)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """One snapshot per table. Driver."""
        self._commits.commit(batch, prepared)
        if repeated := self._attempts.repeated(batch):
            keep = frozenset[str]().union(*(Files.of(handle).names for handle in prepared))
            self._remove(repeated, f"cdc-{self._pipeline}-b{batch}-", keep)
        self._attempts.forget(0, batch)
        if self._options.compaction == "own":
            self._upkeep.after_commit(list(dict.fromkeys(handle.table for handle in prepared)))

    def compact(self, table: TableId) -> str:
        """Merge the files and manifests of a table, let old snapshots expire, and say what was done. Driver."""
        return self._upkeep.compact(table)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the files of this batch and of later ones that were never decided. Driver."""
        self._remove(self._attempts.since(batch), f"cdc-{self._pipeline}-b{batch}-", frozenset())
        self._attempts.forget(batch)

    def examine(self) -> Iterator[Finding]:
        """The packages, and the catalog."""
        check_versions()
        yield ok("packages", ", ".join(f"{name} {version}" for name, version in VERSIONS.items()))
        catalog = self._tables.catalog
        check_bucket(catalog.options)
        with catalog.guard(catalog.place):
            yield ok("catalog", f"{catalog.place}: {len(catalog.open().list_databases())} databases")

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The table's rows. Any process."""
        from connectors.paimon.read_back import LakeRows

        found = self._tables.find(table)
        if found is None:
            return None
        if not found.keys:
            return "a table without a key only grows"
        return LakeRows(self._tables.catalog, found, schema)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[PaimonSchemas]:
        """A session with the catalog. Driver."""
        dialect = PaimonDialect(self._options.table_properties(), self._options.partitions())
        yield PaimonSchemas(self._tables, dialect, self._pipeline, self._user)

    def _remove(self, places: set[Place], prefix: str, keep: frozenset[str]) -> None:
        for name, folder in sorted(places):
            table = self._tables.find(name)
            if table is None:  # its files went with it
                continue
            with self._tables.catalog.guard(str(name)):
                files = table.library.file_io
                for path in leftover_files(files, folder, prefix, keep):
                    log.info("removing %s, which was never decided", path)
                    files.delete_quietly(path)
