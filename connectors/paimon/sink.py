"""The Paimon sink: executors write data files, the driver commits a snapshot per table and batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cdc.finding import Finding, ok
from cdc.schema import CreateTable, SchemaChange, TableId, TableSchema
from cdc.sink import StoredTable, TaskAttempt
from cdc.source import Context
from connectors.paimon.buckets import compile_kernel
from connectors.paimon.commits import LakeCommits
from connectors.paimon.handles import NotedFiles
from connectors.paimon.library import VERSIONS, Catalog, check_versions, load
from connectors.paimon.load import Loader
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.session import PaimonSession
from connectors.paimon.tables import claim, find_table
from connectors.paimon.upkeep.upkeep import Upkeep
from connectors.shared.lake.sink import LakeSink


class PaimonSink(LakeSink):
    """Writes the tables of one catalog. Picklable; each process opens the catalog when first needed."""

    name: ClassVar[str] = "Paimon"

    def __init__(self, options: PaimonSinkOptions, context: Context) -> None:
        self._options, self._pipeline = options, context.pipeline
        self._catalog = Catalog(options.catalog_options())
        self._user = f"{options.user_prefix}-{context.pipeline}"
        retry = context.retry_policy(options.retry_timeout_s)
        commits = LakeCommits(self._catalog, self._user, options.threads, retry)
        upkeep = Upkeep(self._catalog, self._pipeline, self._user, options.compact_files)
        super().__init__(options, context, commits, upkeep, flush_bytes=options.flush_size)

    def check(self) -> None:
        """Check that the packages are installed and the catalog answers. Driver."""
        check_versions()
        self._catalog.databases()

    def warm(self) -> None:
        """Load the packages and the kernels. Executor."""
        load()
        compile_kernel()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes, and claim tables that existed before. Driver."""
        for table in dict.fromkeys(change.table for change in changes if isinstance(change, CreateTable)):
            found = find_table(self._catalog, table)
            if found is not None:
                claim(self._catalog, found, self._pipeline)
        super().apply(batch, changes)

    def _loader(self, task: TaskAttempt) -> Loader:
        return Loader(self._catalog, self._pipeline, self._keyless, task.note)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the noted files of a batch that was never decided. Driver."""
        for files in map(NotedFiles.from_json, noted):
            table = find_table(self._catalog, files.table)
            if table is not None:  # otherwise its files were removed with it
                with self._catalog.guard(str(files.table)):
                    for path in files.paths(table.library.file_io):
                        table.library.file_io.delete_quietly(path)

    def examine(self) -> Iterator[Finding]:
        """Report on the packages and the catalog."""
        check_versions()
        yield ok("packages", ", ".join(f"{name} {version}" for name, version in VERSIONS.items()))
        catalog = self._catalog
        yield ok("catalog", f"{catalog.place}: {len(catalog.databases())} databases")

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The rows of a table, for `cdc verify`. Any process."""
        from connectors.paimon.read_back import LakeRows

        found = find_table(self._catalog, table)
        if found is None:
            return None
        if not found.key:
            return "a table without a key only grows"
        return LakeRows(self._catalog, found, schema)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[PaimonSession]:
        """Open a session with the catalog, for schema changes. Driver."""
        yield PaimonSession(self._catalog, self._options, self._pipeline, self._user)
