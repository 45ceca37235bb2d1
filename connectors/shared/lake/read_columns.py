"""The columns of a lake table that `cdc verify` reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cdc.schema import TableId, TableSchema
from cdc.sink import stored_columns
from connectors.shared.lake.columns import LakeColumn, converted


class ReadColumns:
    """A schema's columns under the table's names. `arrow` is their Arrow schema, under the schema's names."""

    def __init__(self, table: TableId, schema: TableSchema, columns: Sequence[LakeColumn]) -> None:
        """Look up the columns. Raises SinkError when the table lacks a column of the schema."""
        found = stored_columns(table, schema, {column.name.casefold(): column for column in columns})
        self.names = [column.name for column in found]
        fields = zip(schema.names, found, strict=True)
        self.arrow = pa.schema([pa.field(name, column.arrow or pa.string()) for name, column in fields])

    def select_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Select the columns from rows of the table."""
        pairs = zip(self.names, self.arrow, strict=True)
        arrays = [rows.column(name).cast(field.type) for name, field in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the source's rows to the columns' own types."""
        pairs = zip(rows.columns, self.arrow, strict=True)
        return pa.RecordBatch.from_arrays([converted(values, field.type) for values, field in pairs], schema=self.arrow)
