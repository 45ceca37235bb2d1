"""Find the columns that an ALTER TABLE adds, and the values that existing rows get in them. Pure.

Only these values are taken as certain: NULL; and as a DEFAULT (or as the value that the server uses for NOT NULL
without one) whole numbers, DECIMAL and FLOAT that are not rounded, text without backslashes, a member of an ENUM
spelled as in its definition, and complete DATE, DATETIME and TIME without a fraction. Anything else is reported instead
of guessed.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation

from cdc.schema import DataType, Kind
from cdc.types.kinds import EXACT, RANGES, TEXTS
from connectors.shared.ddl.statements import AddColumnClause, ColumnDefinition, DefaultKind, TypeSpec

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_NUMBERS = INTEGERS | {"decimal", "double", "float"}
_WORDS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_CLOCKS = {"date": date.fromisoformat, "datetime": datetime.fromisoformat, "time": time.fromisoformat}
_SHAPES = {"date": r"\d{4}-\d\d-\d\d", "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "time": r"\d\d:\d\d:\d\d"}
COMPUTED = "the server's default for it is not a constant that is certain here"


@dataclass(frozen=True, slots=True)
class Added:
    """A column that is added.

    Attributes:
        kind: the base type in the statement, as `TypeSpec.name` has it.
        fill: the text of the value that existing rows get; None for NULL.
        uncertain: why that value is not certain; empty when it is.
        if_new: whether the column may have existed already (IF NOT EXISTS).
    """

    name: str
    kind: str
    fill: str | None = None
    uncertain: str = ""
    if_new: bool = False


def added_column(clause: AddColumnClause) -> Added:
    """The column that a clause adds, with the value of existing rows, or why that is not certain."""
    column, default = clause.column, clause.column.default
    null = column.nullable is not False if default is None else default.kind is DefaultKind.NULL
    fill, certain = None, False
    if column.generated or column.auto_increment or column.primary_key:
        pass
    elif null:
        # With the settings of old servers, a TIMESTAMP without NULL or NOT NULL is NOT NULL.
        certain = default is not None or column.nullable is True or column.type.name != "timestamp"
    else:
        fill = _fill(column)
        certain = fill is not None
    return Added(column.name, column.type.name, fill, "" if certain else COMPUTED, clause.if_not_exists)


def _fill(column: ColumnDefinition) -> str | None:
    """The value that existing rows get in a column where it is not NULL; None when it is not certain."""
    kind, default = column.type.name, column.default
    if default is None:
        implicit = "0" if kind in _NUMBERS else "" if kind in _WORDS else next(iter(column.type.labels), None)
        return None if not isinstance(implicit, str) or kind == "set" else _value(column.type, implicit, written=True)
    if default.bracketed or default.kind not in (DefaultKind.STRING, DefaultKind.NUMBER):
        return None
    return _value(column.type, default.text, written=default.kind is DefaultKind.STRING)


def _value(spec: TypeSpec, text: str, *, written: bool) -> str | None:
    """The text as a value of the type; None when a server may change it, or a sink may read it differently."""
    kind = spec.name
    if "\\" in text or "\0" in text or ("'" in text and '"' in text):
        return None
    if kind in _NUMBERS:
        return _number(spec, text)
    if kind in _WORDS:
        # The server decides how a number is spelled.
        return (text.rstrip(" ") if kind == "char" else text) if written or text.isdigit() else None
    if kind == "enum":
        return text if text in spec.labels else None
    if kind not in _CLOCKS or not re.fullmatch(_SHAPES[kind], text):
        return None
    try:
        _CLOCKS[kind](text)
    except ValueError:
        return None
    return text


def _number(spec: TypeSpec, text: str) -> str | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if spec.name in INTEGERS:
        return str(int(value)) if value == value.to_integral_value() else None
    if spec.name == "decimal":
        return _scaled(value, spec.length or 10, spec.scale or 0)
    return text.lstrip("+") if spec.length is None and (spec.name != "float" or _is_single(value)) else None


def _scaled(value: Decimal, precision: int, scale: int) -> str | None:
    """The number with the type's digits; None for one that the type cannot hold exactly."""
    try:
        found = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except InvalidOperation:
        return None
    return f"{found:f}" if found == value and value.copy_abs() < Decimal(10) ** (precision - scale) else None


def _is_single(value: Decimal) -> bool:
    try:
        return Decimal(struct.unpack("f", struct.pack("f", float(value)))[0]) == value
    except OverflowError:
        return False


def as_value(data_type: DataType, kind: str, fill: str) -> str | None:
    """The value that rows get in a column of this type, as the text of a default; None when that is not certain.

    Args:
        kind, fill: as in `Added`.
    """
    scale, length = data_type.scale or 0, data_type.length
    if data_type.kind in RANGES:
        low, high = RANGES[data_type.kind]
        return fill if kind in _NUMBERS and "." not in fill and low <= int(fill) <= high else None
    if data_type.kind is Kind.BOOLEAN:
        return fill if kind in INTEGERS and fill in ("0", "1") else None
    if data_type.kind is Kind.DECIMAL:
        return _scaled(Decimal(fill), length or 10, scale) if kind in _NUMBERS else None
    if data_type.kind is Kind.DOUBLE:
        return fill if kind in _NUMBERS else None
    if data_type.kind is Kind.FLOAT:
        return fill if kind in _NUMBERS and _is_single(Decimal(fill)) else None
    if data_type.kind in TEXTS:
        return fill if kind in _WORDS | {"enum"} and (length is None or len(fill) <= length) else None
    moment_kind = {Kind.DATE: "date", Kind.TIMESTAMP: "datetime", Kind.TIME: "time"}.get(data_type.kind)
    if moment_kind is None or kind != moment_kind:
        return None
    return f"{fill}.{'0' * length}" if length and kind != "date" else fill
