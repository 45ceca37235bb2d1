"""Arrow columns as the text of LOAD DATA and of SQL literals. Pure; by columns, never row by row.

Bytes travel in hexadecimal, so no character set has a say in them. Text is UTF-8 already.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from connectors.mysql.sink.types import ServerType
from connectors.shared.sql.client import quoted

_LOAD_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))
_LITERAL_ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0"))
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column that is written: its name and type in the server."""

    name: str
    type: ServerType


def load_body(rows: pa.RecordBatch, columns: Sequence[TargetColumn]) -> bytes:
    """The rows as LOAD DATA reads them with `load_columns`: tabs between fields, a line feed behind each row."""
    fields = []
    for values, column in zip(rows.columns, columns, strict=True):
        text = _text(values, column)
        if not _is_hex(values.type):
            text = _escaped(text, _LOAD_ESCAPES)
        fields.append(pc.fill_null(text, "\\N"))
    lines = pc.binary_join_element_wise(*fields, "\t") if len(fields) > 1 else fields[0]
    return _joined(lines, "\n") + b"\n"


def load_columns(columns: Sequence[TargetColumn], types: Sequence[pa.DataType]) -> str:
    """The list of columns of LOAD DATA, and what it sets from variables: `(id, @v1) SET data = UNHEX(@v1)`."""
    names, settings = [], []
    for place, (column, kind) in enumerate(zip(columns, types, strict=True)):
        expression = _expression(column, kind, f"@cdc_{place}")
        names.append(f"@cdc_{place}" if expression else quoted(column.name))
        if expression:
            settings.append(f"{quoted(column.name)} = {expression}")
    return f"({', '.join(names)})" + (f" SET {', '.join(settings)}" if settings else "")


def literals(rows: pa.RecordBatch, columns: Sequence[TargetColumn]) -> list[str]:
    """The rows as SQL: `(1,'a',NULL)` for each."""
    fields = []
    for values, column in zip(rows.columns, columns, strict=True):
        text = _text(values, column)
        if _is_hex(values.type):
            text = pc.binary_join_element_wise("x'", text, "'", "")
        elif not (pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
            text = pc.binary_join_element_wise("'", _escaped(text, _LITERAL_ESCAPES), "'", "")
        fields.append(pc.fill_null(text, "NULL"))
    lines = pc.binary_join_element_wise(*fields, ",") if len(fields) > 1 else fields[0]
    return [f"({line})" for line in lines.to_pylist()]


def _is_hex(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_list(kind))


def _expression(column: TargetColumn, kind: pa.DataType, variable: str) -> str:
    """What a column is set to where the text of the field is not the value."""
    if column.type.name == "bit":
        return f"CAST(CONV({variable}, {16 if _is_hex(kind) else 10}, 10) AS UNSIGNED)"
    return f"UNHEX({variable})" if _is_hex(kind) else ""


def _text(values: pa.Array, column: TargetColumn) -> pa.Array:
    """The plain text of each value; NULL stays."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = pc.cast(values, pa.uint8())
    elif pa.types.is_floating(kind):
        _check_finite(values, column)
    elif pa.types.is_duration(kind):
        return _spans(values)
    elif pa.types.is_timestamp(kind) and kind.tz is not None:
        values = values.cast(pa.timestamp("us"))
    elif pa.types.is_list(kind):
        return _hex(values.offsets, 4, values, np.ascontiguousarray(values.values.to_numpy(zero_copy_only=False)))
    elif pa.types.is_binary(kind):
        return _hex_of_bytes(values)
    return values if pa.types.is_string(values.type) else pc.cast(values, pa.string())


def _check_finite(values: pa.Array, column: TargetColumn) -> None:
    bad = pc.fill_null(pc.invert(pc.is_finite(values)), False)
    if pc.any(bad).as_py():
        value = values.filter(bad)[0].as_py()
        hint = "leave such rows out with a filter, or make them NULL with a projection"
        raise SinkError(f"{value} cannot be stored", where=f"column {column.name}", hint=hint)


def _spans(values: pa.Array) -> pa.Array:
    """`-838:59:59.000000` of microseconds."""
    number = (
        values.view(pa.int64()) if values.type == pa.duration("us") else values.cast(pa.duration("us")).view(pa.int64())
    )
    sign = pc.if_else(pc.less(number, 0), "-", "")
    size = pc.abs(number)
    seconds = pc.divide(size, _MICROSECONDS)
    parts = (
        (pc.divide(seconds, 3600), 2),
        (pc.subtract(pc.divide(seconds, 60), pc.multiply(pc.divide(seconds, 3600), 60)), 2),
        (pc.subtract(seconds, pc.multiply(pc.divide(seconds, 60), 60)), 2),
        (pc.subtract(size, pc.multiply(seconds, _MICROSECONDS)), 6),
    )
    hours, minutes, rest, micros = (pc.utf8_lpad(pc.cast(part, pa.string()), width, "0") for part, width in parts)
    return pc.binary_join_element_wise(
        sign, pc.binary_join_element_wise(hours, minutes, rest, ":"), pc.binary_join_element_wise("", micros, "."), ""
    )


def _hex_of_bytes(values: pa.Array) -> pa.Array:
    data = values.buffers()[2]
    return _hex(None, 1, values, b"" if data is None else data)


def _hex(offsets: pa.Array | None, width: int, values: pa.Array, data: Any) -> pa.Array:
    """The bytes of each value in hexadecimal; `offsets` count items of `width` bytes in `data`."""
    if offsets is None:
        raw = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    else:
        raw = offsets.to_numpy()
    starts = raw.astype(np.int64) * width
    text = binascii.hexlify(memoryview(data).cast("B")[int(starts[0]) : int(starts[-1])]) if len(values) else b""
    new = ((starts - starts[0]) * 2).astype(np.int32)
    made = pa.StringArray.from_buffers(len(values), pa.py_buffer(new), pa.py_buffer(text))
    return pc.if_else(pc.is_valid(values), made, pa.scalar(None, pa.string())) if values.null_count else made


def _escaped(text: pa.Array, escapes: Sequence[tuple[str, str]]) -> pa.Array:
    """With backslashes; most columns have nothing to escape."""
    for letter, escape in escapes:
        if pc.any(pc.match_substring(text, letter)).as_py():
            text = pc.replace_substring(text, letter, escape)
    return text


def _joined(lines: pa.Array, between: str) -> bytes:
    """All texts as one."""
    return between.join(lines.to_pylist()).encode()
