"""Reads rows of a table back over SQL, and computes the stored form of loaded rows, both in the same Arrow types.

The stored form is derived from the load text itself: rows are checked and written as in a load, and each field is read
as the column's type reads it. JSON columns compare by value, not by spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import TableSchema
from connectors.shared.conversion.fit import Fitter
from connectors.shared.conversion.plan import WHOLE
from connectors.shared.conversion.policy import RejectedValuePolicy
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.last_image.last_image import LastImages
from connectors.shared.sql.client import SqlClient, StatementRefused
from connectors.shared.sql.text import quoted, text_literal
from connectors.shared.streamload.dialect import StreamLoadDialect
from connectors.shared.streamload.encode import DelimitedEncoder
from connectors.shared.streamload.flush import RowRules

_BLOCK_ROWS = 50_000
_KEYS_AT_ONCE = 500
_TRUTH = {b"1": True, b"true": True, b"0": False, b"false": False}
_DIGITS = 38


class LoadedRows:
    """A table of Doris or StarRocks, read by SELECT: a `cdc.sink.StoredTable`. Driver, for `cdc verify`.

    A value that does not fit, at which a load would stop, is NULL here.
    """

    def __init__(
        self, sql: SqlClient, schema: TableSchema, target: TargetTable, dialect: StreamLoadDialect, rules: RowRules
    ) -> None:
        fail = RejectedValuePolicy.FAIL
        policy = RejectedValuePolicy.NULL if rules.rejected_values is fail else rules.rejected_values
        self._sql, self._schema, self._target = sql, schema, target
        self._fitter = Fitter(
            schema, target, dialect.limits, policy, time_zone=rules.time_zone, max_key_bytes=rules.max_key_bytes
        )
        self._columns = tuple(replace(target.column(name), name=name) for name in schema.names)
        self._encoder = DelimitedEncoder(schema, target, dialect)
        self.arrow = pa.schema([pa.field(column.name, _arrow(column)) for column in self._columns])

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the table's values after a load of these rows."""
        count = rows.num_rows
        images = LastImages(
            self._target.table,
            self._schema,
            rows,
            np.zeros(count, np.uint8),
            np.zeros(count, np.int64),
            count,
            0,
            0,
            {},
        )
        fitted = self._fitter.check(images)
        if not fitted.rows.num_rows:
            return pa.RecordBatch.from_pylist([], schema=self.arrow)
        encoder = self._encoder.for_rows(fitted.rows)
        fields = bytes(encoder.encode(fitted.rows, fitted.delete))[:-1].replace(b"\x02", b"\x01").split(b"\x01")
        step = 1 + len(self._columns)
        columns = []
        for place, column in enumerate(self._columns):
            values = [None if field == b"\\N" else field for field in fields[1 + place :: step]]
            if column.kind is TargetKind.VARBINARY or column.name in encoder.hex_columns:
                values = [None if value is None else bytes.fromhex(value.decode()) for value in values]
            columns.append(_read(values, column))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read with one SELECT, or with one per few hundred keys."""
        for where in [""] if keys is None else _conditions(keys):
            for cells in self._selected(where):
                columns = [_read(list(values), column) for values, column in zip(cells, self._columns, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _selected(self, where: str) -> Iterator[Sequence[tuple[bytes | None, ...]]]:
        """Yield the columns of the rows, in the server's spelling."""
        names = ", ".join(_selected(column) for column in self._columns)
        table = self._target.table
        with self._sql.session() as session:
            try:
                for rows in session.spelled(
                    f"SELECT {names} FROM {quoted(table.database, table.table)}{where}", _BLOCK_ROWS
                ):
                    yield list(zip(*rows, strict=True))
            except StatementRefused as error:
                hint = "GRANT SELECT on the table to the user"
                raise SinkError(f"its rows cannot be read: {error.message}", where=str(table), hint=hint) from error


def _selected(column: TargetColumn) -> str:
    """SQL of the column with all of its digits."""
    name = quoted(column.name)
    return f"CAST({name} AS DOUBLE)" if column.kind is TargetKind.FLOAT else name


def _arrow(column: TargetColumn) -> pa.DataType:
    if column.kind is TargetKind.DECIMAL:
        return pa.decimal128(column.length or _DIGITS, column.scale or 0)
    if column.kind is TargetKind.LARGEINT:
        return pa.decimal128(_DIGITS, 0)
    if column.kind in WHOLE:
        return pa.int64()
    return _TYPES.get(column.kind, pa.string())


_TYPES = {
    TargetKind.BOOLEAN: pa.bool_(), TargetKind.FLOAT: pa.float32(), TargetKind.DOUBLE: pa.float64(),
    TargetKind.DATE: pa.date32(), TargetKind.DATETIME: pa.timestamp("us"), TargetKind.VARBINARY: pa.binary(),
}  # fmt: skip


def _read(values: list[bytes | None], column: TargetColumn) -> pa.Array:
    """Parse values in a server's spelling. Raises SinkError for a spelling that is invalid for the type."""
    special = _SPECIAL.get(column.kind)
    try:
        if special is not None:
            return pa.array([None if value is None else special(value) for value in values], _arrow(column))
        plain = pa.array(values, pa.binary())
        if column.kind is TargetKind.VARBINARY:
            return plain
        text = _text(plain)
        kind = _arrow(column)
        return text if pa.types.is_string(kind) else pc.cast(text, kind)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise SinkError(f"a value cannot be read as {column}: {error}", where=column.name) from error


def _text(values: pa.Array) -> pa.Array:
    """Decode bytes; invalid UTF-8 becomes a replacement character, which no row of the source has."""
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        shown = [None if value is None else value.decode(errors="replace") for value in values.to_pylist()]
        return pa.array(shown, pa.string())


def _json(value: bytes) -> str:
    """Normalize a JSON value: numbers as doubles, keys in order."""
    return json.dumps(json.loads(value, parse_int=float), sort_keys=True)


_SPECIAL: dict[TargetKind, Callable[[bytes], Any]] = {
    TargetKind.BOOLEAN: lambda value: _TRUTH[value.lower()],
    TargetKind.JSON: _json,
}


def _conditions(keys: pa.RecordBatch) -> Iterator[str]:
    names = [quoted(name) for name in keys.schema.names]
    for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
        part = keys.slice(start, _KEYS_AT_ONCE)
        columns = [[_literal(value) for value in column] for column in part.columns]
        if len(names) == 1:
            yield f" WHERE {names[0]} IN ({', '.join(columns[0])})"
            continue
        yield f" WHERE {' OR '.join(f'({_equals_sql(names, row)})' for row in zip(*columns, strict=True))}"


def _equals_sql(names: Sequence[str], values: Sequence[str]) -> str:
    return " AND ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _literal(value: Any) -> str:
    if pa.types.is_integer(value.type) or pa.types.is_decimal(value.type):
        return str(value.as_py())
    return text_literal(str(value.cast(pa.string()).as_py()))
