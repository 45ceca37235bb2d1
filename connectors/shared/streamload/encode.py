"""Encodes rows of a sink table as load text: fields end with 0x01, rows with 0x02, NULL is `\\N`.

The first field of every row is the delete sign or, in a table without deletes, a marker for no column: so no line is
ever blank, and no value is at the start of a line, where a byte order mark would be removed.

The text of a character column is sent as it is, unless a value contains one of the bytes 0, 1, 2 or is the two
characters `\\N`; then the column is sent as hex digits and the `columns` header has `unhex` for it. A request has one
header, so this choice holds for a whole load: `for_rows` decides whether the running load can take these rows too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.schema import TableSchema
from connectors.shared.conversion.plan import ColumnPlan, plan_columns
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.kernels.buffers import Buffers, buffers, string_offsets, too_long
from connectors.shared.kernels.text import floats, integers, moments
from connectors.shared.sql.text import quoted
from connectors.shared.streamload.dialect import StreamLoadDialect, sent_as_hex
from connectors.shared.streamload.kernels import rows

_MARGIN = 256
_PLAIN_OPS = {
    pa.bool_(): (rows.BOOL, 1),
    pa.int8(): (rows.INT8, 4),
    pa.int16(): (rows.INT16, 6),
    pa.int32(): (rows.INT32, 11),
    pa.int64(): (rows.INT64, integers.INTEGER_BYTES),
    pa.uint8(): (rows.UINT8, 3),
    pa.uint16(): (rows.UINT16, 5),
    pa.uint32(): (rows.UINT32, 10),
    pa.uint64(): (rows.UINT64, integers.INTEGER_BYTES),
    pa.float32(): (rows.FLOAT32, floats.FLOAT_BYTES),
    pa.float64(): (rows.FLOAT64, floats.FLOAT_BYTES),
    pa.date32(): (rows.DATE32, moments.DATE_BYTES),
    pa.duration("us"): (rows.SPAN, moments.SPAN_BYTES),
}
_FILLERS = {
    TargetKind.DATE: b"1970-01-01", TargetKind.DATETIME: b"1970-01-01 00:00:00", TargetKind.JSON: b"{}",
    TargetKind.CHAR: b"", TargetKind.VARCHAR: b"", TargetKind.STRING: b"", TargetKind.VARBINARY: b"",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Field:
    """The encoding of one column. `room` is the longest text of a value, 0 for strings, which are measured."""

    plan: ColumnPlan
    op: int
    detail: int
    room: int
    in_deletes: bool
    filler: np.ndarray


class DelimitedEncoder:
    """Writes checked rows of one table at one schema as load text. Executor; built once per load, used by one thread.

    Attributes:
        columns_header: value of the `columns` header for a load of this encoder's text.
        hex_columns: names of character columns sent as hex digits.
    """

    def __init__(
        self,
        schema: TableSchema,
        target: TargetTable,
        dialect: StreamLoadDialect,
        *,
        hex_columns: frozenset[str] = frozenset(),
    ) -> None:
        """Plan the columns. Raises SinkError when the sink's table lacks one of them."""
        self._schema, self._target, self._dialect = schema, target, dialect
        self.hex_columns = hex_columns
        self._safe: pa.RecordBatch | None = None
        kept = {*target.keys, *target.kept_in_deletes}
        self._fields = tuple(
            _field(plan, plan.target.name in kept or not target.upserts, plan.source.name in hex_columns)
            for plan in plan_columns(schema, target)
        )
        self.columns_header = _header(self._fields, target, dialect)

    def for_rows(self, batch: pa.RecordBatch) -> DelimitedEncoder:
        """Return this encoder if it can write these rows, else one that can, with another `columns` header.

        The caller then ends the running load and begins the next one with the returned encoder.
        """
        found, long = self._unsafe(batch)
        if not found and not long:
            self._safe = batch
            return self
        chosen = (self.hex_columns | found) - long
        return DelimitedEncoder(self._schema, self._target, self._dialect, hex_columns=chosen)

    def encode(self, batch: pa.RecordBatch, delete: np.ndarray) -> memoryview:
        """Return the text of all rows, in order, each with its row end. Rows as returned by `Fitter.check`.

        Args:
            batch: the source's columns in the source's order.
            delete: uint8[n], 1 for a deleted row: only its key columns are written.

        Raises:
            ValueError: the rows need another encoder (`for_rows`).
        """
        if batch is not self._safe and any(self._unsafe(batch)):
            raise ValueError(f"rows of {self._target.table} need another encoder: ask for_rows")
        self._safe = None
        described = np.zeros((len(self._fields), len(rows.FIELDS)), np.int64)
        room = batch.num_rows * 2 + _MARGIN
        for line, field, array in zip(described, self._fields, batch.columns, strict=True):
            line[:], size = _describe(field, array, buffers(array))
            room += size
        out = np.empty(room, np.uint8)
        delete = np.ascontiguousarray(delete, np.uint8)
        start = int(out.ctypes.data)
        end = rows.write_rows(described, batch.num_rows, int(delete.ctypes.data), start)
        return out.data[: end - start]

    def _unsafe(self, batch: pa.RecordBatch) -> tuple[frozenset[str], frozenset[str]]:
        """Return names of columns that must be sent as hex digits but are not, and of those that are but may not.

        The latter are character columns with a value so long that twice its length is more than the server reads.
        """
        found, long = [], []
        for field, array in zip(self._fields, batch.columns, strict=True):
            if len(array) == 0 or not pa.types.is_string(field.plan.arrow):
                continue
            name = field.plan.source.name
            if field.op == rows.TEXT and sent_as_hex(array):
                found.append(name)
            limit = self._dialect.field_bytes
            if name in self.hex_columns and limit is not None and too_long(array, limit // 2) is not None:
                long.append(name)
        return frozenset(found), frozenset(long)


def _field(plan: ColumnPlan, in_deletes: bool, as_hex: bool) -> _Field:
    kind, target = plan.arrow, plan.target
    detail, room = 0, 0
    if pa.types.is_string(kind):
        op = rows.HEX if as_hex or target.kind is TargetKind.VARBINARY else rows.TEXT
    elif pa.types.is_binary(kind):
        op = rows.HEX
    elif pa.types.is_list(kind):
        op = rows.FLOATS
    elif pa.types.is_decimal128(kind):
        op, detail, room = rows.DECIMAL128, kind.scale, integers.DECIMAL_BYTES
    elif pa.types.is_timestamp(kind):
        op, detail, room = rows.MOMENT, _digits(plan), moments.MOMENT_BYTES
    else:
        op, room = _PLAIN_OPS[kind]
        detail = _digits(plan) if op == rows.SPAN else 0
    filler = np.frombuffer(_filler(target), np.uint8)
    return _Field(plan, op, detail, max(room, len(filler)), in_deletes, filler)


def _digits(plan: ColumnPlan) -> int:
    """Return the fractional digits: the source's, or the sink's when those are fewer (the others are zero then)."""
    digits = plan.source.type.length or 0
    limited = plan.target.kind is TargetKind.DATETIME and plan.target.length is not None
    return min(digits, plan.target.length or 0) if limited else digits


def _filler(target: TargetColumn) -> bytes:
    """Return the text for NULL, and for the values of a deleted row: those of a NOT NULL column must be readable."""
    return b"\\N" if target.nullable else _FILLERS.get(target.kind, b"0")


def _describe(field: _Field, array: pa.Array, place: Buffers) -> tuple[tuple[int, ...], int]:
    """Return the kernel's numbers for a column, and the maximum bytes it can take."""
    size = len(array) * (field.room + 1)
    if field.op in (rows.TEXT, rows.HEX, rows.FLOATS):
        taken = int(string_offsets(array)[-1] - string_offsets(array)[0])
        size += taken * {rows.TEXT: 1, rows.HEX: 2, rows.FLOATS: floats.FLOAT_BYTES + 1}[field.op] + 2 * len(array)
    numbers = (
        field.op, place.values, place.validity, place.validity_bit, place.offsets, field.detail, place.bit,
        int(field.in_deletes), int(field.filler.ctypes.data), len(field.filler),
    )  # fmt: skip
    return numbers, size


def _header(fields: tuple[_Field, ...], target: TargetTable, dialect: StreamLoadDialect) -> str:
    """Return the list of columns: the delete sign, the columns of the text, expressions for those in hex digits."""
    taken = {column.name.casefold() for column in target.columns}
    names = [quoted(dialect.delete_sign if target.upserts else _free("cdc_row", taken))]
    expressions = []
    for number, field in enumerate(fields):
        name = quoted(field.plan.target.name)
        binary = pa.types.is_binary(field.plan.arrow)
        digits_stay = dialect.limits.keeps_digits and binary and field.plan.target.kind is not TargetKind.VARBINARY
        if field.op == rows.HEX and not digits_stay:
            place = quoted(_free(f"cdc_hex_{number}", taken))
            expressions.append(f"{name}={dialect.from_hex(field.plan.target.kind, place, binary=binary)}")
            name = place
        names.append(name)
    return ",".join(names + expressions)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no column has."""
    while name.casefold() in taken:
        name += "_"
    return name
