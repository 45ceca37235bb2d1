"""What a server answers to SELECT, as the Python values that a decoded column should have."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from cdc_services.server import MySqlServer
from connectors.mysql.table import MySqlColumn, MySqlTable

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_SHAPES = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
}  # fmt: skip
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def selected(server: MySqlServer, table: MySqlTable, order: str) -> list[tuple[Any, ...]]:
    """All rows of the table, sorted by `order`; invalid dates as None."""
    expressions = ", ".join(_expression(column) for column in table.columns)
    with closing(server.connect(conv={})) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {expressions} FROM `{table.id.database}`.`{table.id.table}` ORDER BY {order}")
        converters = [_converter(column) for column in table.columns]
        return [
            tuple(None if cell is None else convert(cell) for cell, convert in zip(row, converters, strict=True))
            for row in cursor.fetchall()
        ]


def shown(value: Any) -> str:
    """A value as recorded files keep it."""
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _expression(column: MySqlColumn) -> str:
    name = f"`{column.name}`"
    if column.type in _BYTES | _SHAPES | {"vector"}:
        return f"HEX({name})"
    if column.type == "bit":
        return (
            f"{name} + 0"
            if column.length == 1
            else f"LPAD(HEX({name} + 0), {((column.length or 1) + 7) // 8 * 2}, '0')"
        )
    return f"{name} + 0e0" if column.type == "float" else name


def _converter(column: MySqlColumn) -> Callable[[str], Any]:
    kind = column.type
    if kind in _INTEGERS:
        return int
    if kind == "decimal":
        return Decimal if (column.length or 10) <= 38 else str
    if kind in ("float", "double"):
        return float
    if kind in _BYTES | _SHAPES:
        return bytes.fromhex
    if kind == "bit":
        return (lambda text: bool(int(text))) if column.length == 1 else bytes.fromhex
    if kind == "vector":
        return lambda text: [number for (number,) in struct.iter_unpack("<f", bytes.fromhex(text))]
    return {"date": _date, "time": _time, "datetime": _moment, "timestamp": _instant}.get(kind, str)


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _instant(text: str) -> datetime | None:
    moment = _moment(text)
    return None if moment is None else moment.replace(tzinfo=UTC)


def _time(text: str) -> timedelta:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = int(((fraction or "") + "000000")[:6])
    span = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=micros)
    return -span if sign else span
