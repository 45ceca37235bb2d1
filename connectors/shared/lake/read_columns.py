"""The columns that `cdc verify` reads of a table in a lake."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cdc.schema import TableId, TableSchema
from cdc.sink import stored_columns
from connectors.shared.lake.columns import LakeColumn, converted


class ReadColumns:
    """A schema's columns by the table's names. `arrow` is their Arrow schema, by the schema's names."""

    def __init__(self, table: TableId, schema: TableSchema, columns: Sequence[LakeColumn]) -> None:
        """Raises SinkError when the table lacks a column of the schema."""
        found = stored_columns(table, schema, {column.name.casefold(): column for column in columns})
        self.names = [column.name for column in found]
        fields = zip(schema.names, found, strict=True)
        self.arrow = pa.schema([pa.field(name, column.arrow or pa.string()) for name, column in fields])

    def select_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns out of rows as the table has them."""
        pairs = zip(self.names, self.arrow, strict=True)
        arrays = [rows.column(name).cast(field.type) for name, field in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The source's rows in the columns' own types."""
        pairs = zip(rows.columns, self.arrow, strict=True)
        return pa.RecordBatch.from_arrays([converted(values, field.type) for values, field in pairs], schema=self.arrow)
