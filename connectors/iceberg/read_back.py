"""Read the rows of a table back for `cdc verify`, data file by data file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cdc.schema import TableSchema
from connectors.iceberg.library import Catalog
from connectors.iceberg.rewrite import live_rows
from connectors.iceberg.row_positions import SnapshotFiles, find
from connectors.iceberg.tables import LakeTable, get_table
from connectors.shared.lake.keys import matching
from connectors.shared.lake.read_columns import ReadColumns


class LakeRows:
    """The newest snapshot of a table as a `cdc.sink.StoredTable`. Driver, for `cdc verify`."""

    def __init__(self, catalog: Catalog, table: LakeTable, schema: TableSchema) -> None:
        """Raises SinkError when the table lacks a column of the schema."""
        self._catalog, self._table = catalog, table
        self._columns = ReadColumns(table.id, schema, table.columns)
        self.arrow, self.as_stored = self._columns.arrow, self._columns.as_stored

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of the snapshot that is the newest when the call begins."""
        table = get_table(self._catalog, self._table.id)
        with self._catalog.guard(str(table.id)):
            files = SnapshotFiles.of(table)
            if keys is None:
                for file in files.data.values():
                    yield from map(self._columns.select_columns, live_rows(table, files, file))
                return
            names = {name.casefold(): name for name in keys.schema.names}
            key_columns = [keys.column(names[name.casefold()]) for name in table.key]
            positions = find(table, files, pa.table(key_columns, names=list(table.key)))
            for path in positions:
                for rows in live_rows(table, files, files.data[path]):
                    yield matching(self._columns.select_columns(rows), keys)
