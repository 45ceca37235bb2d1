"""Rows of a table read back for `cdc verify`, data file by data file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cdc.errors import SinkError
from cdc.schema import TableSchema
from connectors.iceberg.places import Files, find
from connectors.iceberg.rewrite import live_rows
from connectors.iceberg.tables import LakeTable, Tables
from connectors.shared.lake.columns import Column, converted
from connectors.shared.lake.keys import matching


class LakeRows:
    """See `cdc.sink.StoredTable`."""

    def __init__(self, tables: Tables, table: LakeTable, schema: TableSchema) -> None:
        """Raises SinkError when the table lacks a column of the schema."""
        self._tables, self._table = tables, table
        there = {column.name.casefold(): column for column in table.columns}
        missing = [name for name in schema.names if name.casefold() not in there]
        if missing:
            hint = "was it changed by somebody else? `cdc resync` makes the table anew"
            raise SinkError(f"the table has no column {', '.join(missing)}", where=str(table.id), hint=hint)
        self._columns: list[tuple[str, Column]] = [(name, there[name.casefold()]) for name in schema.names]
        self.arrow = pa.schema([pa.field(name, column.arrow or pa.string()) for name, column in self._columns])

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """The rows of the snapshot that is newest when the call begins."""
        table = self._tables.get(self._table.id)
        with self._tables.catalog.guard(str(table.id)):
            files = Files.of(table)
            if keys is None:
                for file in files.data.values():
                    yield self._chosen(live_rows(table, files, file))
                return
            own = {name.casefold(): name for name in keys.schema.names}
            wanted = [keys.column(own[name.casefold()]) for name in table.key]
            places = find(table, files, pa.table(wanted, names=list(table.key)))
            for path in places:
                yield matching(self._chosen(live_rows(table, files, files.data[path])), keys)

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """In the columns' own types."""
        pairs = zip(rows.columns, self.arrow, strict=True)
        return pa.RecordBatch.from_arrays([converted(values, field.type) for values, field in pairs], schema=self.arrow)

    def _chosen(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            rows.column(column.name).cast(field.type)
            for (_, column), field in zip(self._columns, self.arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
