"""Changes as JSON objects, one per line: the format of the values connector, also used in tests.

    {"change": "create.table", "table": "shop.orders", "schema": {"columns": [{"name": "id", "type": "BIGINT"},
        {"name": "price", "type": "DECIMAL(10, 2)"}], "primary_key": ["id"]}}
    {"op": "+I", "table": "shop.orders", "row": {"id": 1, "price": "9.50"}}
    {"op": "-U", "table": "shop.orders", "row": {"id": 1, "price": "9.50"}}
    {"op": "+U", "table": "shop.orders", "row": {"id": 1, "price": "12.00"}, "ts_ms": 1767225600000}
    {"change": "add.column", "table": "shop.orders", "column": {"name": "note", "type": "STRING"}}
    {"op": "-D", "table": "shop.orders", "row": {"id": 1, "price": "12.00"}}
    {"commit": true}

* **Schema changes** are those of `cdc.schema_json`. A table is created before its first row.
* **Row images** have Flink's row kinds: `+I` insert, `-U` update-before, `+U` update-after, `-D` delete. The two images
  of an update follow each other. Columns that are left out are NULL. `ts_ms`, when the source committed, is optional.
* **`{"commit": true}`** ends a transaction: a batch holds whole ones. Without any such line each line is one, except
  that a `-U` stays with the line after it.

| column type | JSON value |
|---|---|
| BOOLEAN | true, false |
| integers | number |
| FLOAT, DOUBLE | number, or "NaN", "Infinity", "-Infinity" |
| DECIMAL | text such as "9.50" (a number is read too) |
| CHAR, VARCHAR, STRING | text |
| JSON | text that holds the document (an object or a list is read too) |
| BINARY, VARBINARY, BYTES, GEOMETRY | text, base64 |
| DATE | "2026-01-31" |
| TIME | "-838:59:59.000001" |
| TIMESTAMP | "2026-01-31T12:00:00.000001" |
| TIMESTAMP_LTZ | "2026-01-31T12:00:00.000001Z" (any offset is read) |
| VECTOR | list of numbers, as FLOAT |
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError
from cdc.schema import DataType, Kind, SchemaChange, TableId
from cdc.schema_json import change_from_json, change_to_json, table_from_json, table_to_json
from cdc.types.kinds import BLOBS, FLOAT_OVERFLOW, INTEGERS, REALS, TEXTS, TIMES

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_KINDS = {kind.symbol: kind for kind in RowKind}
_TIME = re.compile(r"(-?)(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
_FRACTION = re.compile(r"[.,](\d*?)0*(?!\d)")


@dataclass(frozen=True, slots=True)
class RowImage:
    """One row image as written: `row` holds JSON values by column name."""

    kind: RowKind
    table: TableId
    row: Mapping[str, Any]
    ts_ms: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction."""


Line = SchemaChange | RowImage | Commit


def line_from_json(value: object) -> Line:
    """The change that a line describes. Raises ValueError with the reason."""
    if not isinstance(value, Mapping):
        raise ValueError(f"a line is a JSON object, got {value!r}")
    if "change" in value:
        return change_from_json(value)
    if value.get("commit") is True and len(value) == 1:
        return Commit()
    unknown = sorted(value.keys() - {"op", "table", "row", "ts_ms"})
    if "op" not in value or unknown:
        raise ValueError(f"a line has a change, an op or a commit; got the keys {', '.join(map(str, value))}")
    op, row, ts_ms = value["op"], value.get("row"), value.get("ts_ms", 0)
    kind = _KINDS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise ValueError(f"op must be one of {', '.join(_KINDS)}, got {op!r}")
    if not isinstance(row, Mapping):
        raise ValueError(f"row must be an object of column names and values, got {row!r}")
    if not isinstance(ts_ms, int):
        raise ValueError(f"ts_ms must be milliseconds since 1970, got {ts_ms!r}")
    return RowImage(kind, table_from_json(value.get("table")), row, ts_ms)


def change_line(change: SchemaChange) -> str:
    """A schema change as a line."""
    return _text(change_to_json(change))


def row_line(image: RowImage) -> str:
    """A row image as a line."""
    line = {"op": image.kind.symbol, "table": table_to_json(image.table), "row": dict(image.row)}
    return _text({**line, "ts_ms": image.ts_ms} if image.ts_ms else line)


def block_lines(block: ChangeBlock) -> Iterator[str]:
    """The row images of a block as lines, in its order. Raises SinkError for a date that a line cannot hold."""
    types = {column.name: column.type for column in block.schema.columns}
    try:
        rows = block.rows.to_pylist()
    except OverflowError as error:
        hint = "leave such rows out with a filter, or cast the column to text with a projection"
        raise SinkError("a date beyond the years 1 to 9999", where=str(block.table), hint=hint) from error
    columns = zip(block.kinds.to_pylist(), rows, block.timestamps_ms.to_pylist(), strict=True)
    for kind, row, ts_ms in columns:
        values = {name: encoded(value, types[name]) for name, value in row.items()}
        yield row_line(RowImage(RowKind(kind), block.table, values, ts_ms))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def decoded(value: object, data_type: DataType) -> Any:
    """The Python value, as Arrow takes it, of a JSON value. Raises ValueError with the reason."""
    if value is None:
        return None
    fraction = _FRACTION.search(value) if data_type.kind in TIMES and isinstance(value, str) else None
    if fraction is not None and len(fraction[1]) > (data_type.length or 0):
        raise ValueError(f"{value!r} has more fractional digits than {data_type}, of which a sink might write fewer")
    try:
        return _READ[data_type.kind](value, data_type)
    except (ValueError, TypeError, AttributeError, InvalidOperation) as error:
        raise ValueError(f"{value!r} is no {data_type}") from error


def encoded(value: Any, data_type: DataType) -> object:
    """The JSON value of a value as Arrow gives it."""
    write = _WRITE.get(data_type.kind)
    return value if value is None or write is None else write(value)


def _boolean(value: Any, _: DataType) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _integer(value: Any, _: DataType) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value


def _number(value: Any, data_type: DataType) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    number = float(value)
    if data_type.kind is not Kind.DOUBLE and FLOAT_OVERFLOW <= abs(number) < math.inf:
        raise ValueError(value)
    return number


def _decimal(value: Any, data_type: DataType) -> Decimal | str:
    number = Decimal(value if isinstance(value, str) else str(value))
    if not number.is_finite():
        raise ValueError(value)
    return number if (data_type.length or 10) <= 38 else f"{number:f}"


def _string(value: Any, _: DataType) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _json(value: Any, _: DataType) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bytes(value: Any, _: DataType) -> bytes:
    return base64.b64decode(value, validate=True)


def _date(value: Any, _: DataType) -> date:
    return date.fromisoformat(value)


def _timestamp(value: Any, _: DataType) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is not None:
        raise ValueError(value)
    return moment


def _instant(value: Any, _: DataType) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment.astimezone(UTC)


def _time(value: Any, _: DataType) -> timedelta:
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError(value)
    micros = int(Decimal(match[4]) * 1_000_000)
    span = timedelta(hours=int(match[2]), minutes=int(match[3]), microseconds=micros)
    return -span if match[1] else span


def _vector(value: Any, data_type: DataType) -> list[float]:
    if not isinstance(value, list):
        raise ValueError(value)
    return [_number(item, data_type) for item in value]


def _number_text(value: float) -> float | str:
    return value if math.isfinite(value) else next(text for text in _NOT_FINITE if repr(float(text)) == repr(value))


def _float_text(value: float) -> float | str:
    """The shortest number that parses to the same 32-bit float."""
    return _number_text(float(str(np.float32(value))))


def _time_text(span: timedelta) -> str:
    seconds, micros = divmod(abs(span) // timedelta(microseconds=1), 1_000_000)
    fraction = f".{micros:06d}" if micros else ""
    sign = "-" if span < timedelta() else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _instant_text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


_READ: dict[Kind, Callable[[Any, DataType], Any]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(REALS, _number),
    **dict.fromkeys(TEXTS, _string),
    **dict.fromkeys(BLOBS, _bytes),
    Kind.BOOLEAN: _boolean,
    Kind.DECIMAL: _decimal,
    Kind.JSON: _json,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_LTZ: _instant,
    Kind.VECTOR: _vector,
}
_WRITE: dict[Kind, Callable[[Any], object]] = {
    **dict.fromkeys(BLOBS, lambda value: base64.b64encode(value).decode()),
    Kind.DECIMAL: lambda value: f"{value:f}" if isinstance(value, Decimal) else value,
    Kind.DOUBLE: _number_text,
    Kind.FLOAT: _float_text,
    Kind.VECTOR: lambda value: [_float_text(item) for item in value],
    Kind.DATE: date.isoformat,
    Kind.TIME: _time_text,
    Kind.TIMESTAMP: datetime.isoformat,
    Kind.TIMESTAMP_LTZ: _instant_text,
}
