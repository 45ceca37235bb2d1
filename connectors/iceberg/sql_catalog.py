"""The library's SQL catalog, with the metadata of tables kept in memory: a metadata file never changes.

A table's metadata has each of its snapshots, and taking fifty of them apart costs more than the rest of a small commit.
The library does so at each look at a table, and again in a commit.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from contextvars import ContextVar
from functools import cache
from typing import Any

_MOST_SNAPSHOTS = 50_000
"""Of all tables whose metadata is kept, some 5 KB each."""
_FIXED = 4
"""What metadata costs besides its snapshots, counted in snapshots."""
_HISTORY = ("snapshots", "snapshot-log", "metadata-log", "refs", "current-snapshot-id", "statistics")


@cache
def sql_catalog() -> Any:
    """The class of the catalog."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    class SqlTables(SqlCatalog):  # type: ignore[misc]
        """Each look asks the database which metadata file is the table's."""

        def _convert_orm_to_iceberg(self, orm_table: Any) -> Any:
            location, whole = orm_table.metadata_location, not _without_history.get()
            metadata = _kept.get(location) if whole else None
            if metadata is None:
                if whole or location.endswith(".gz.metadata.json"):
                    table = super()._convert_orm_to_iceberg(orm_table)
                    _kept.keep(location, table.metadata)
                    return table
                with load_file_io(self.properties, location).new_input(location).open() as stream:
                    fields = json.loads(stream.read())
                kept = {name: value for name, value in fields.items() if name not in _HISTORY}
                metadata = TableMetadataUtil.parse_obj(kept)
            name = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
            return Table(name, metadata, location, self._load_file_io(metadata.properties, location), self)

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            response = super().commit_table(table, requirements, updates)
            _kept.keep(response.metadata_location, response.metadata)
            return response

        def load_without_history(self, identifier: tuple[str, ...]) -> Any:
            """The table with neither snapshots nor logs, for those who write files of it and no more."""
            token = _without_history.set(True)
            try:
                return self.load_table(identifier)
            finally:
                _without_history.reset(token)

    return SqlTables


_without_history: ContextVar[bool] = ContextVar("without_history", default=False)


class _Metadata:
    """The newest metadata of each table by the path of its file, the latest ones. Thread safe."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._values: OrderedDict[str, Any] = OrderedDict()
        self._newest: dict[Any, str] = {}

    def get(self, location: str) -> Any:
        with self._lock:
            if location in self._values:
                self._values.move_to_end(location)
            return self._values.get(location)

    def keep(self, location: str, metadata: Any) -> None:
        with self._lock:
            self._drop(location)
            self._drop(self._newest.get(metadata.table_uuid, ""))
            self._values[location], self._newest[metadata.table_uuid] = metadata, location
            self._count += _size(metadata)
            while self._count > _MOST_SNAPSHOTS and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def _drop(self, location: str) -> None:
        gone = self._values.pop(location, None)
        if gone is not None:
            self._count -= _size(gone)
            del self._newest[gone.table_uuid]


def _size(metadata: Any) -> int:
    return len(metadata.snapshots) + _FIXED


_kept = _Metadata()
