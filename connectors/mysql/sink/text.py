"""Formats Arrow columns as the text of LOAD DATA and of SQL literals. Pure; by column, never row by row.

Bytes are sent in hexadecimal, so character sets do not matter. Text is UTF-8 already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.types.casts import more_digits
from cdc.types.text import Piece, concatenate, escaped, hexadecimal, joined_bytes, not_finite, spans
from connectors.mysql.server.column_type import parse_column_type
from connectors.mysql.sink.refusal import RowRefused
from connectors.mysql.sink.types import Flavor, ServerType
from connectors.mysql.table import BEYOND_UTF8MB3
from connectors.shared.conversion.policy import Reason
from connectors.shared.sql.text import quoted

_LOAD_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0"))
_TIMES = frozenset({"time", "datetime", "timestamp"})
_LITERAL_ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("\0", "\\0"))


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column to write: its name and type in the server.

    Attributes:
        exact: refuse values that the server would silently change.
        labels: the labels of an ENUM or SET, if texts are checked against them.
        is_compared: the values locate rows, so each has all of its digits, and are not written.
    """

    name: str
    type: ServerType
    exact: bool = False
    labels: frozenset[str] = frozenset()
    is_compared: bool = False

    @property
    def is_year(self) -> bool:
        """Whether a number below 100 would be read as a two-digit year, 0 as 2000."""
        return self.type.name == "year"


def load_body(rows: pa.RecordBatch, columns: Sequence[WrittenColumn]) -> bytes:
    """Format rows for LOAD DATA with `load_columns`: tabs between fields, a line feed after each row."""
    pieces: list[Piece] = []
    for values, column in zip(rows.columns, columns, strict=True):
        text = _text(values, column)
        if not _is_hex(values.type):
            text = escaped(text, _LOAD_ESCAPES)
        pieces += ["\t", pc.fill_null(text, "\\N") if text.null_count else text]
    return joined_bytes([*pieces[1:], "\n"])


def load_columns(columns: Sequence[WrittenColumn], types: Sequence[pa.DataType]) -> str:
    """Return the column list of LOAD DATA and its assignments from variables: `(id, @v1) SET data = UNHEX(@v1)`."""
    names, settings = [], []
    for place, (column, kind) in enumerate(zip(columns, types, strict=True)):
        expression = _expression(column, kind, f"@cdc_{place}")
        names.append(f"@cdc_{place}" if expression else quoted(column.name))
        if expression:
            settings.append(f"{quoted(column.name)} = {expression}")
    return f"({', '.join(names)})" + (f" SET {', '.join(settings)}" if settings else "")


def literals(rows: pa.RecordBatch, columns: Sequence[WrittenColumn]) -> list[str]:
    """Format each row as SQL: `(1,'a',NULL)`."""
    pieces: list[Piece] = []
    for values, column in zip(rows.columns, columns, strict=True):
        text, before, behind = _text(values, column), "'", "'"
        if _is_hex(values.type) and column.type.name == "bit":  # a server compares only 53 bits of a BIT with x''
            before, behind = "CAST(CONV('", "',16,10) AS UNSIGNED)"
        elif column.is_compared and pa.types.is_binary(values.type):  # IN (x'') matches no empty value in OceanBase
            before, behind = "UNHEX('", "')"
        elif _is_hex(values.type):
            before = "x'"
        elif column.is_compared and column.type.name == "decimal":  # MariaDB compares DECIMAL and text as DOUBLE
            before, behind = "CAST('", f"' AS {column.type.text.removesuffix(' unsigned')})"
        elif (pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)) and not column.is_year:
            before = behind = ""
        else:
            text = escaped(text, _LITERAL_ESCAPES)
        if text.null_count:
            text = pc.fill_null(pc.binary_join_element_wise(before, text, behind, ""), "NULL")
            before = behind = ""
        pieces += [f",{before}", text, behind]
    pieces[0] = f"({str(pieces[0])[1:]}"
    found: list[str] = concatenate([*pieces, ")"]).to_pylist()
    return found


def compared(columns: Sequence[WrittenColumn]) -> list[WrittenColumn]:
    """Return the columns for literals that locate rows."""
    return [replace(column, is_compared=True) for column in columns]


def in_literals(columns: Sequence[WrittenColumn], lines: Sequence[str], flavor: Flavor) -> str:
    """Return the condition for rows with these keys, given as literals.

    OceanBase cannot compare ENUM or SET with text.
    """
    labels = ("enum", "set") if flavor == "oceanbase" else ()
    names = (f"CONCAT({quoted(one.name)})" if one.type.name in labels else quoted(one.name) for one in columns)
    return f"({', '.join(names)}) IN ({', '.join(lines)})"


def _is_hex(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_list(kind))


def _expression(column: WrittenColumn, kind: pa.DataType, variable: str) -> str:
    """Return the expression for a column whose field text is not the value itself."""
    if column.type.name == "bit":
        return f"CAST(CONV({variable}, {16 if _is_hex(kind) else 10}, 10) AS UNSIGNED)"
    return f"UNHEX({variable})" if _is_hex(kind) else ""


def _text(values: pa.Array, column: WrittenColumn) -> pa.Array:
    """Return the plain text of each value; NULL stays."""
    kind = values.type
    for _, refused in _refusals(values, column):
        raise refused
    if pa.types.is_boolean(kind):
        values = pc.cast(values, pa.uint8())
    elif pa.types.is_floating(kind):
        # With few digits the largest FLOAT becomes too large, and 0.1 in a DOUBLE another number. But FLOAT(7,3)
        # rounds, and OceanBase refuses 9999.9990234375 before rounding.
        short = "," in column.type.text and not column.is_compared
        values = values if short else values.cast(pa.float64())
    elif pa.types.is_duration(kind):
        return spans(values)
    elif pa.types.is_timestamp(kind) and kind.tz is not None:
        values = values.cast(pa.timestamp("us"))
    elif _is_hex(kind):
        return hexadecimal(values)
    text = values if pa.types.is_string(values.type) else pc.cast(values, pa.string())
    return pc.utf8_lpad(text, 4, "0") if column.is_year else text


def refusals(rows: pa.RecordBatch, columns: Sequence[WrittenColumn]) -> dict[int, RowRefused]:
    """Return the rows with a value that cannot be written as SQL, or that the server would silently change."""
    found: dict[int, RowRefused] = {}
    for values, column in zip(rows.columns, columns, strict=True):
        for place, refused in _refusals(values, column):
            found.setdefault(place, refused)
    return found


def _refusals(values: pa.Array, column: WrittenColumn) -> Iterator[tuple[int, RowRefused]]:
    kind = values.type
    if pa.types.is_floating(kind):
        if not_finite(values) is not None:
            finite = pc.fill_null(pc.is_finite(values), True)
            yield from _each(values, pc.invert(finite), column, Reason.NOT_FINITE, "cannot be stored in")
        if column.exact and "," in column.type.text:
            yield from _each(values, _rounded(values, column.type), column, Reason.NOT_CONVERTIBLE, "is rounded in")
    elif column.exact and column.is_year and pa.types.is_integer(kind):
        two_digits = pc.fill_null(pc.and_(pc.greater(values, 0), pc.less(values, 100)), False)
        yield from _each(values, two_digits, column, Reason.NOT_CONVERTIBLE, "is taken for two digits of a year in")
    elif column.exact and column.type.name in _TIMES and (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        digits = parse_column_type(column.type.text).length or 0
        yield from _each(values, more_digits(values, digits), column, Reason.DIGITS_LOST, "is rounded in")
    elif pa.types.is_string(kind) and column.labels:
        yield from _each(values, _no_label(values, column), column, Reason.NOT_CONVERTIBLE, "is no label of")


def _each(
    values: pa.Array, bad: pa.Array, column: WrittenColumn, reason: Reason, what: str
) -> Iterator[tuple[int, RowRefused]]:
    for place in np.flatnonzero(np.asarray(bad)).tolist():
        yield place, RowRefused(reason, f"{values[place].as_py()} {what} column '{column.name}'")


def labels_of(found: ServerType) -> frozenset[str]:
    """Return the labels of an ENUM or SET as servers show them: with `?` for characters beyond U+FFFF."""
    return frozenset(parse_column_type(found.text).labels if found.name in ("enum", "set") else ())


def _no_label(values: pa.Array, column: WrittenColumn) -> pa.Array:
    """Return a mask of texts that an ENUM or SET would store differently.

    They are in other case, have spaces, or are the number of a label.
    """
    texts, several = values.dictionary_encode(), column.type.name == "set"
    shown = (BEYOND_UTF8MB3.sub("?", text) for text in texts.dictionary.to_pylist())
    parts = [text.split(",") if several else [text] for text in shown]
    bad = pa.array([part != [""] and not column.labels.issuperset(part) for part in parts], pa.bool_())
    return pc.fill_null(bad.take(texts.indices), False)


def _rounded(values: pa.Array, of: ServerType) -> pa.Array:
    """Return a mask of numbers with more digits after the point than such a FLOAT or DOUBLE keeps."""
    numbers = np.asarray(pc.fill_null(values, 0.0), np.float64)
    scale = 10.0 ** (parse_column_type(of.text).scale or 0)
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(np.rint(numbers * scale) / scale - numbers)
    return pa.array(away > np.abs(numbers) * (2.0**-22 if of.name == "float" else 2.0**-50))
