"""Read the rows of a table back for `cdc verify`, merged by the Rust package."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdc.schema import TableSchema
from connectors.paimon.library import Catalog
from connectors.paimon.rows import read_rows
from connectors.paimon.tables import LakeTable
from connectors.shared.lake.keys import matching
from connectors.shared.lake.read_columns import ReadColumns

_KEYS_AT_ONCE = 500


class LakeRows:
    """The newest snapshot of a table as a `cdc.sink.StoredTable`, files merged by key. Driver, for `cdc verify`."""

    def __init__(self, catalog: Catalog, table: LakeTable, schema: TableSchema) -> None:
        """Raises SinkError when the table lacks a column of the schema."""
        self._catalog, self._table = catalog, table
        self._columns = ReadColumns(table.id, schema, table.columns)
        self.arrow, self.as_stored = self._columns.arrow, self._columns.as_stored

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of the snapshot that is the newest when the call begins."""
        if keys is None:
            yield from self._read(None)
            return
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            some = keys.slice(start, _KEYS_AT_ONCE)
            for rows in self._read(self._predicate(some)):
                yield matching(rows, some)

    def _read(self, predicate: dict[str, object] | None) -> Iterator[pa.RecordBatch]:
        for rows in read_rows(self._catalog, self._table, self._columns.names, predicate=predicate):
            yield self._columns.select_columns(rows)

    def _predicate(self, keys: pa.RecordBatch) -> dict[str, object] | None:
        """The filter on the first key column for these values; None if the reader cannot filter by such values."""
        name = keys.schema.names[0]
        values = keys.column(0)
        if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
            return None
        column = next(column for column in self._columns.names if column.casefold() == name.casefold())
        return {"method": "in", "field": column, "literals": pc.unique(values).to_pylist()}
