"""The library's SQL catalog, with a cache of the tables' metadata, since a metadata file never changes.

A table's metadata contains all its snapshots. Parsing fifty of them costs more than the rest of a small commit, and the
library would do so each time it loads a table, and again in a commit.
"""

from __future__ import annotations

import json
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

from connectors.iceberg.lru_cache import LruCache

_MOST_SNAPSHOTS = 50_000
"""The most snapshots in the cached metadata of all tables, of about 5 KB each."""
_FIXED = 4
"""The size of metadata without its snapshots, counted in snapshots."""
_HISTORY = ("snapshots", "snapshot-log", "metadata-log", "refs", "current-snapshot-id", "statistics")


@dataclass
class _Commit:
    """A commit to a table in the state that was loaded, and the metadata file that it wrote."""

    table: Any
    written: str = ""


@cache
def sql_catalog() -> Any:
    """The catalog's class, defined here because the library is loaded late."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.io import load_file_io
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    class SqlTables(SqlCatalog):  # type: ignore[misc]
        """Caches metadata; each load of a table asks the database which metadata file is current."""

        def _convert_orm_to_iceberg(self, orm_table: Any) -> Any:
            location, with_history = orm_table.metadata_location, not _without_history.get()
            metadata = _cache.get(location) if with_history else None
            if metadata is None:
                if with_history or location.endswith(".gz.metadata.json"):
                    table = super()._convert_orm_to_iceberg(orm_table)
                    _keep(location, table.metadata)
                    return table
                with load_file_io(self.properties, location).new_input(location).open() as stream:
                    fields = json.loads(stream.read())
                retained = {name: value for name, value in fields.items() if name not in _HISTORY}
                metadata = TableMetadataUtil.parse_obj(retained)
            name = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
            return Table(name, metadata, location, self._load_file_io(metadata.properties, location), self)

        def load_table(self, identifier: Any) -> Any:
            commit = _commit.get()
            return super().load_table(identifier) if commit is None else commit.table

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            response = super().commit_table(table, requirements, updates)
            _keep(response.metadata_location, response.metadata)
            return response

        def commit_on(self, table: Any, requirements: Any, updates: Any) -> Any:
            """Commit to the loaded state of the table; the database accepts it only while that is the newest."""
            commit = _Commit(table)
            token = _commit.set(commit)
            try:
                return self.commit_table(table, requirements, updates)
            except CommitFailedException:
                if commit.written:
                    with suppress(OSError):  # a file that stays only costs space
                        table.io.delete(commit.written)
                raise
            finally:
                _commit.reset(token)

        def _update_and_stage_table(self, *given: Any, **named: Any) -> Any:
            staged, commit = super()._update_and_stage_table(*given, **named), _commit.get()
            if commit is not None:
                commit.written = staged.metadata_location
            return staged

        def load_without_history(self, identifier: tuple[str, ...]) -> Any:
            """Load the table without snapshots and logs, which is enough for writing data files."""
            token = _without_history.set(True)
            try:
                return self.load_table(identifier)
            finally:
                _without_history.reset(token)

    return SqlTables


_without_history: ContextVar[bool] = ContextVar("without_history", default=False)
_commit: ContextVar[_Commit | None] = ContextVar("commit", default=None)


def _size(metadata: Any) -> int:
    return len(metadata.snapshots) + _FIXED


def _keep(location: str, metadata: Any) -> None:
    """Cache a table's metadata instead of the former one."""
    former = _newest.get(metadata.table_uuid)
    _newest[metadata.table_uuid] = location
    _cache.put(location, metadata)
    if former is not None and former != location:
        _cache.forget(former)


_cache: LruCache[Any] = LruCache(_MOST_SNAPSHOTS, _size)
_newest: dict[Any, str] = {}
"""The newest metadata file of each table, by the table's UUID."""
