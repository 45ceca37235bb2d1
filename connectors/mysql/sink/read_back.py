"""Reads rows of a sink table back for `cdc verify`, with the decoder of the source's rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.errors import SinkError
from cdc.schema import DataType, Kind, TableId, TableSchema
from cdc.sink import stored_columns
from connectors.mysql.server.information_schema import table_reader
from connectors.mysql.sink.session import SinkServer
from connectors.mysql.sink.text import WrittenColumn, compared, in_literals, literals
from connectors.mysql.sink.types import Flavor, ServerType
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, ResultStream
from connectors.mysql.table import MySqlTable, data_type, spelled
from connectors.mysql.value_rules import ValueRules

_KEYS_AT_ONCE = 500
_RULES = ValueRules(tinyint1_as_boolean=True)


class ServerRows:
    """A table of MySQL, MariaDB or OceanBase, read by SELECT: a `cdc.sink.StoredTable`. Driver, for `cdc verify`.

    JSON columns compare by value, not by spelling.
    """

    def __init__(self, server: SinkServer, table: MySqlTable, flavor: Flavor = "mysql") -> None:
        self._server, self._table, self._flavor = server, table, flavor
        self._sent = _with_texts(table) if flavor == "oceanbase" else table
        self._types = [_type(table, index) for index in range(len(table.columns))]
        self.arrow = pa.schema(
            [pa.field(column.name, arrow_type(kind)) for column, kind in zip(table.columns, self._types, strict=True)]
        )

    @classmethod
    def open(cls, server: SinkServer, table: TableId, schema: TableSchema) -> ServerRows | None:
        """Open the columns of `schema`; None when there is no such table. Raises SinkError for a missing column."""
        with server.session() as session:
            found = table_reader(session.connection)(table)
            flavor = session.flavor
        if found is None:
            return None
        columns = stored_columns(table, schema, {column.name.casefold(): column for column in found.columns})
        chosen = (replace(column, name=name) for name, column in zip(schema.names, columns, strict=True))
        return cls(server, replace(found, columns=tuple(chosen)), flavor)

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read with one SELECT, or with one per few hundred keys."""
        if keys is None:
            yield from self._select("")
            return
        columns = compared([self._target(name) for name in keys.schema.names])
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            lines = literals(keys.slice(start, _KEYS_AT_ONCE), columns)
            yield from self._select(in_literals(columns, lines, self._flavor))

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows to the columns' own types, which may be wider."""
        columns = [
            self._normal(index, _as(values, self.arrow.field(index).type)) for index, values in enumerate(rows.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _select(self, where: str) -> Iterator[pa.RecordBatch]:
        with self._server.session() as session:
            session.run(
                "SET SESSION character_set_results = NULL, TRANSACTION_ISOLATION = 'READ-COMMITTED'"
                if session.flavor == "mysql"
                else "SET SESSION character_set_results = NULL"
            )
            name = str(self._table.id)
            try:
                stream = ResultStream(session.connection, select_from(self._table, where), name)
                reader = RowReader(self._sent, stream.columns, Stamp(0, 0, 0), lambda *_: None, _RULES, where=name)
                for block in reader.blocks(stream):
                    yield self._normalized(block.rows)
            except DefinitionChanged as error:
                hint = "run it again when the schema change is through"
                raise SinkError(f"the table was changed while it was read: {error}", where=name, hint=hint) from None

    def _normalized(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [self._normal(index, values) for index, values in enumerate(rows.columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _normal(self, index: int, values: pa.Array) -> pa.Array:
        if self._types[index].kind is Kind.JSON:
            texts = [
                None if text is None else json.dumps(json.loads(text), sort_keys=True) for text in values.to_pylist()
            ]
            return pa.array(texts, pa.string())
        if self._types[index].kind is Kind.DECIMAL and pa.types.is_string(values.type):
            shorter = pc.replace_substring_regex(values, r"(\.\d*?)0+$", r"\1")
            return pc.replace_substring_regex(shorter, r"\.$", "")
        if self._types[index].kind is Kind.VECTOR and pa.types.is_string(values.type):
            vectors = [None if text is None else json.loads(text) for text in values.to_pylist()]
            return pa.array(vectors, self.arrow.field(index).type)
        if self._table.columns[index].type == "char":
            return pc.utf8_rtrim(values, " ")
        return values

    def _target(self, name: str) -> WrittenColumn:
        column = next(column for column in self._table.columns if column.name.casefold() == name.casefold())
        return WrittenColumn(column.name, ServerType(spelled(column)))


def _with_texts(table: MySqlTable) -> MySqlTable:
    """Return the table as OceanBase sends its rows: vectors are texts such as `[1,2.5]`."""
    columns = (
        replace(column, type="longtext", charset="utf8mb4") if column.type == "vector" else column
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to the column's type; a vector in a column of bytes is its bytes."""
    if pa.types.is_list(values.type) and pa.types.is_binary(kind):
        return pa.array(
            [None if item is None else np.asarray(item, "<f4").tobytes() for item in values.to_pylist()], kind
        )
    return pc.cast(values, kind)


def _type(table: MySqlTable, index: int) -> DataType:
    return data_type(table.columns[index], tinyint1_as_boolean=True)
