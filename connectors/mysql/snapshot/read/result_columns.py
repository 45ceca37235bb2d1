"""Rows of a SELECT over a table as change blocks: the same Arrow columns that the log's decoder makes of the row.

Text comes in the column's own character set (the session has `character_set_results = NULL`) and is converted by the
decoder's code, so a value without a character in its set is refused or replaced here as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, arrow_schema
from cdc.errors import CdcError, CorruptLog, SchemaUnknown, SourceError, UnsupportedChange
from cdc.schema import Kind
from cdc.source import Count
from connectors.mysql.kernels import ops
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.arena import Arena
from connectors.mysql.rows.column_plan import Finish, RowPlan
from connectors.mysql.rows.row_faults import odd_vector
from connectors.mysql.snapshot.read.kernels import protocol, result_rows
from connectors.mysql.snapshot.read.result_stream import ResultColumn, RowPackets
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules
from connectors.shared.sql.text import quoted

BLOCK_ROWS: Final = 1 << 16
BLOCK_BYTES: Final = 8 << 20
"""A block has at most so many rows, from about so many bytes of the result at most."""
MOST_ROWS: Final = (1 << 31) - 1
"""Rows of one chunk: their numbers are int32."""
_SAMPLE_ROWS: Final = 1024

_FIXED: Final = {
    "tinyint": (codes.TINY, protocol.INT8, 1, 1),
    "smallint": (codes.SHORT, protocol.INT16, 2, 2),
    "mediumint": (codes.INT24, protocol.INT32, 4, 4),
    "int": (codes.LONG, protocol.INT32, 4, 4),
    "bigint": (codes.LONGLONG, protocol.INT64, 8, 8),
    "float": (codes.FLOAT, protocol.INT32, 4, 4),
    "double": (codes.DOUBLE, protocol.INT64, 8, 8),
    "year": (codes.YEAR, protocol.YEAR, 2, 4),
}
"""Column type -> type code in the result, operation, bytes on the wire, bytes in the block."""
_STAMPS: Final = {
    "date": (codes.DATE, protocol.DATE, 4),
    "time": (codes.TIME_OLD, protocol.TIME, 8),
    "datetime": (codes.DATETIME_OLD, protocol.MOMENT, 8),
    "timestamp": (codes.TIMESTAMP_OLD, protocol.MOMENT, 8),
}
_STRINGS: Final = frozenset(
    {
        codes.VARCHAR, codes.VECTOR, codes.JSON, codes.ENUM, codes.SET, codes.TINY_BLOB, codes.MEDIUM_BLOB,
        codes.LONG_BLOB, codes.BLOB, codes.VAR_STRING, codes.STRING, codes.GEOMETRY,
    }
)  # fmt: skip
_TEXT: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})


def select_from(table: MySqlTable, where: str = "", *, versions: bool = False) -> str:
    """A SELECT of the columns in table order, also invisible and generated ones; no value is converted by the server.

    `versions`: with the past ones of rows that the server keeps.
    """
    columns = ", ".join(quoted(column.name) for column in table.columns)
    name = quoted(table.id.database, table.id.table) + (" FOR SYSTEM_TIME ALL" if versions else "")
    return f"SELECT {columns} FROM {name}" + (f" WHERE {where}" if where else "")


def _result_plan(
    table: MySqlTable, columns: Sequence[ResultColumn], *, where: str, tinyint1_as_boolean: bool
) -> RowPlan:
    """How rows of `select_from` become columns. Raises SchemaUnknown when the result has other columns."""
    if len(columns) != len(table.columns):
        raise _does_not_fit(f"the result has {len(columns)} columns, the definition {len(table.columns)}", where)
    schema = table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean)
    numbers = np.zeros(len(columns), ops.COLUMN)
    finish: list[Finish | None] = []
    for index, (column, found) in enumerate(zip(table.columns, columns, strict=True)):
        as_boolean = schema.columns[index].type.kind is Kind.BOOLEAN
        for field, value in _operation(column, found, as_boolean=as_boolean, where=where).items():
            numbers[field][index] = value
        finish.append(Finish(charset=column.charset or "utf8mb4") if column.type in _TEXT else None)
    arrow = arrow_schema(schema)
    raw = tuple(kind if left is None else pa.binary() for kind, left in zip(arrow.types, finish, strict=True))
    nothing = np.zeros(1, np.int64)
    return RowPlan(table, schema, arrow, numbers, nothing, np.zeros(1, np.uint8), 0, raw, tuple(finish))


def _operation(column: MySqlColumn, found: ResultColumn, *, as_boolean: bool, where: str) -> dict[str, int]:
    """Fields of the column's ops.COLUMN record."""
    kind = column.type
    expected = _FIXED.get(kind) or _STAMPS.get(kind)
    expected_code = {"decimal": codes.NEWDECIMAL, "bit": codes.BIT}.get(kind) if expected is None else expected[0]
    fits = found.type in _STRINGS if expected_code is None else found.type == expected_code
    integer = kind in _FIXED and kind not in ("float", "double", "year")
    if not fits or (integer and found.unsigned != column.unsigned):
        sign = "unsigned " if found.unsigned else ""
        raise _does_not_fit(f"column {column.name} {kind}: the result has {sign}type code {found.type} there", where)
    if kind in _FIXED:
        _, op, need, width = _FIXED[kind]
        op = protocol.YEAR2 if kind == "year" and found.width == 2 else op
        return _op(protocol.BOOLEAN, need=need, width=ops.BITS_OUT) if as_boolean else _op(op, need=need, width=width)
    if kind in _STAMPS:
        return _op(_STAMPS[kind][1], width=_STAMPS[kind][2])
    if kind == "decimal":
        precision, scale = 10 if column.length is None else column.length, column.scale or 0
        if precision > 38:
            return _op(protocol.DECIMAL_TEXT, c=scale, width=ops.BYTES_OUT, growth=68)
        return _op(protocol.DECIMAL64 if precision <= 18 else protocol.DECIMAL128, c=scale, width=16)
    if kind == "bit":
        size = ((column.length or 1) + 7) // 8
        if as_boolean:
            return _op(protocol.BIT, width=ops.BITS_OUT)
        return _op(protocol.BITS, b=size, width=ops.BYTES_OUT, growth=size, ratio=1)
    if kind == "vector":
        return _op(protocol.FLOATS, width=ops.FLOATS_OUT, ratio=1)
    return _op(protocol.BYTES, width=ops.BYTES_OUT, ratio=1)


def _op(
    op: int, *, need: int = 0, b: int = 0, c: int = 0, width: int, growth: int = 0, ratio: int = 0
) -> dict[str, int]:
    return {"op": op, "need": need, "b": b, "c": c, "width": width, "growth": growth, "ratio": ratio}


def _does_not_fit(message: str, where: str) -> SchemaUnknown:
    return SchemaUnknown(message, where=where, hint="the table was changed while it was read; the chunk is read again")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Values of all rows of a chunk: their sequence, the number of the first one, and their time (ms since 1970)."""

    sequence: int
    first_row: int
    timestamp_ms: int


class RowReader:
    """Turns packets into blocks of at most BLOCK_ROWS rows. Executor; not thread safe.

    Args:
        columns: of the result of `select_from`.
        stamp: see there.
        count: told about values that were changed by the rules, as the decoder tells it.
        where: the table, for errors.

    Attributes:
        schema: the table's, by the rules.
        rows: rows given out.

    Raises SchemaUnknown when the result has other columns than the table.
    """

    def __init__(
        self,
        table: MySqlTable,
        columns: Sequence[ResultColumn],
        stamp: Stamp,
        count: Count,
        rules: ValueRules = DEFAULT_RULES,
        *,
        where: str,
    ) -> None:
        self._plan = _result_plan(table, columns, where=where, tinyint1_as_boolean=rules.tinyint1_as_boolean)
        self.schema = self._plan.schema
        self._stamp, self._count, self._strict, self._where = stamp, count, rules.strict_dates, where
        self._replaced = count if rules.replaces_text else None
        self.rows = 0
        self._arena: Arena | None = None
        self._capacity = 0
        self._averages: Any = None
        self._row_bytes = 1.0
        self._bytes = 0
        self._state = np.zeros(protocol.ROW_STATE, np.int64)

    def blocks(self, packets: Iterable[RowPackets]) -> Iterator[ChangeBlock]:
        """All rows of a result. Raises as `read`, and as the packets."""
        for some in packets:
            yield from self.read(some)
        yield from self.finish()

    def read(self, packets: RowPackets) -> Iterator[ChangeBlock]:
        """The blocks that became full. Raises CorruptLog, UnsupportedChange or SourceError."""
        done = 0
        while done < packets.count:
            arena = self._arena or self._open(packets, done)
            before = int(self._state[protocol.ROWS])
            code = self._fill(arena, packets, done)
            row = int(self._state[protocol.ROWS])
            if row > before:
                self._bytes += int(packets.ends[done + row - before - 1]) - int(packets.starts[done])
            done += row - before
            if code not in (protocol.DONE, protocol.FULL):
                raise self._fault(code, packets)
            if code == protocol.FULL and row == 0:
                self._open(packets, done, exact=True)
            elif code == protocol.FULL or self._bytes >= BLOCK_BYTES:
                yield self._close(arena, row)

    def finish(self) -> Iterator[ChangeBlock]:
        """The last block, if rows are left."""
        if self._arena is not None and self._state[protocol.ROWS]:
            yield self._close(self._arena, int(self._state[protocol.ROWS]))

    def _open(self, packets: RowPackets, done: int, *, exact: bool = False) -> Arena:
        """An arena for the next rows: by what rows took so far, or for the worst case of the next ones."""
        if self._averages is None or exact:
            rows = 1 if exact else min(_SAMPLE_ROWS, packets.count - done)
            bound = int(packets.ends[done + rows - 1]) - int(packets.starts[done])
            averages = np.full(len(self._plan.numbers), -1.0)
        else:
            rows = min(BLOCK_ROWS, int(BLOCK_BYTES / self._row_bytes * 1.05) + 64)
            bound, averages = 2 * BLOCK_BYTES, self._averages
        self._capacity, self._bytes = rows, 0
        self._state[protocol.ROWS] = 0
        self._arena = Arena(self._plan, rows, bound, averages)
        return self._arena

    def _fill(self, arena: Arena, packets: RowPackets, done: int) -> int:
        """Rows from `done` on into the arena; the kernel's code."""
        number = self._stamp.first_row + self.rows
        if number > MOST_ROWS - self._capacity:
            hint = "make chunks smaller: scan.incremental.snapshot.chunk.size"
            raise SourceError(f"a chunk has more than {MOST_ROWS} rows", where=self._where, hint=hint)
        code = result_rows.read_rows(
            address(packets.buffer), address(packets.starts), address(packets.ends), done, packets.count,
            len(self._plan.numbers), address(arena.layout), address(arena.head), self._capacity, self._stamp.sequence,
            number, self._stamp.timestamp_ms, self._strict, address(self._state),
        )  # fmt: skip
        return int(code)

    def _close(self, arena: Arena, rows: int) -> ChangeBlock:
        """The arena's rows as a block."""
        for index in np.flatnonzero(arena.layout["invalid"]).tolist():
            name = f"invalid-date-to-null {self._plan.table.id}.{self._plan.table.columns[index].name}"
            self._count(name, int(arena.layout["invalid"][index]))
        seen = arena.averages(rows)
        self._averages = seen if self._averages is None else np.maximum(seen, self._averages * 0.9)
        self._row_bytes = max(self._bytes / rows, 1.0)
        block = arena.block(rows, True, None, self._where, self._replaced)
        self.rows += rows
        self._arena = None
        return block

    def _fault(self, code: int, packets: RowPackets) -> CdcError:
        column, at = int(self._state[protocol.FAULT_COLUMN]), int(self._state[protocol.FAULT_AT])
        name = self._plan.table.columns[column].name if column >= 0 else ""
        if code == protocol.INVALID_DATE:
            text = date_text(packets.buffer[at : at + 12].tobytes())
            hint = "correct it, or allow invalid dates as NULL"
            return UnsupportedChange(f"column {name} holds {text}, which is no date", where=self._where, hint=hint)
        if code == protocol.ODD_VECTOR:
            return odd_vector(name, self._where)
        place_of = f" in column {name}" if name else ""
        return CorruptLog(f"a row of the server's answer does not add up{place_of}", where=self._where)


def date_text(data: bytes) -> str:
    """How MySQL shows the date or moment that begins with its length at the start of `data`."""
    size = data[0]
    parts = data[1 : 1 + size].ljust(11, b"\0")
    day = f"{int.from_bytes(parts[:2], 'little'):04}-{parts[2]:02}-{parts[3]:02}"
    return day if size == 4 else f"{day} {parts[4]:02}:{parts[5]:02}:{parts[6]:02}"
