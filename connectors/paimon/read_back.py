"""Rows of a table read back for `cdc verify`, with the Rust package's merge."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import TableSchema
from connectors.paimon.library import Catalog
from connectors.paimon.rows import read_rows
from connectors.paimon.tables import LakeTable
from connectors.shared.lake.columns import Column, converted
from connectors.shared.lake.keys import matching

_KEYS_AT_ONCE = 500


class LakeRows:
    """See `cdc.sink.StoredTable`."""

    def __init__(self, catalog: Catalog, table: LakeTable, schema: TableSchema) -> None:
        """Raises SinkError when the table lacks a column of the schema."""
        self._catalog, self._table = catalog, table
        there = {column.name.casefold(): column for column in table.columns}
        missing = [name for name in schema.names if name.casefold() not in there]
        if missing:
            hint = "was it changed by somebody else? `cdc resync` copies the table anew"
            raise SinkError(f"the table has no column {', '.join(missing)}", where=str(table.id), hint=hint)
        self._columns: list[tuple[str, Column]] = [(name, there[name.casefold()]) for name in schema.names]
        fields = [pa.field(name, column.arrow or pa.string()) for name, column in self._columns]
        self.arrow = pa.schema(fields)

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """The rows of the snapshot that is newest when the call begins."""
        if keys is None:
            yield from self._read(None)
            return
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            some = keys.slice(start, _KEYS_AT_ONCE)
            for rows in self._read(self._predicate(some)):
                yield matching(rows, some)

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """In the columns' own types."""
        pairs = zip(rows.columns, self.arrow, strict=True)
        return pa.RecordBatch.from_arrays([converted(values, field.type) for values, field in pairs], schema=self.arrow)

    def _read(self, predicate: dict[str, object] | None) -> Iterator[pa.RecordBatch]:
        names = [column.name for _, column in self._columns]
        for rows in read_rows(self._catalog, self._table, names, predicate=predicate):
            arrays = [array.cast(field.type) for array, field in zip(rows.columns, self.arrow, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _predicate(self, keys: pa.RecordBatch) -> dict[str, object] | None:
        """The first key column is one of these values, where the reader takes such values."""
        name = keys.schema.names[0]
        values = keys.column(0)
        if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
            return None
        column = next(column.name for own, column in self._columns if own.casefold() == name.casefold())
        return {"method": "in", "field": column, "literals": pc.unique(values).to_pylist()}
