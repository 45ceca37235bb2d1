"""Compares a source table with its table in a load sink's server, value by value, as the sink's page maps the types.

The source's side is that of `comparison`. What both servers have in common: decimals of more than 38 digits, times and
vectors are text there, unsigned 64-bit numbers come as text. Doris keeps binary values as hexadecimal digits, and
geometry as well-known text; StarRocks keeps both as bytes, and digits only in keys.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import comparison
import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from cdc_services.server import MySqlServer
from cdc_standins import StandIn
from connectors.shared.conversion.geometry import geometry_text

Row = tuple[Any, ...]
_GEOMETRY = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection",
    "geometrycollection",
})  # fmt: skip
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"})


def differences(server: MySqlServer, standin: StandIn, databases: list[str]) -> list[str]:
    """What is not equal, one line each; empty when every table of the databases has the same columns and rows."""
    source = comparison.source_columns(server, databases)
    names = ", ".join(f"'{database}'" for database in databases)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for database, table, column, kind in _query(
        standin, f"SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.columns "
        f"WHERE TABLE_SCHEMA IN ({names})",
    ):  # fmt: skip
        found.setdefault((_text(database), _text(table)), {})[_text(column)] = _text(kind).lower()
    problems = [f"{table}: not in the sink" for table in sorted(source.keys() - found.keys())]
    problems += [f"{table}: only in the sink" for table in sorted(found.keys() - source.keys())]
    for table in sorted(source.keys() & found.keys()):
        problems += _compare(server, standin, table, source[table], found[table])
    return problems


def _compare(
    server: MySqlServer, standin: StandIn, table: tuple[str, str], columns: dict[str, str], sink_columns: dict[str, str]
) -> list[str]:
    name = ".".join(table)
    if columns.keys() != sink_columns.keys():
        return [f"{name}: columns {sorted(columns)} in the source, {sorted(sink_columns)} in the sink"]
    expected = [_expected(standin.kind, kind) for kind in columns.values()]
    read = [_read(standin.kind, kind, sink_columns[column]) for column, kind in columns.items()]
    source = Counter(_row(expected, row) for row in comparison.source_rows(server, table, columns))
    select = ", ".join(f"`{column}`" for column in columns)
    rows = _query(standin, f"SELECT {select} FROM `{table[0]}`.`{table[1]}`")
    return comparison.unequal(name, columns, source, Counter(_row(read, row) for row in rows))


def _row(kinds: list[Callable[[Any], Any]], row: Row) -> Row:
    return tuple(None if value is None else kind(value) for kind, value in zip(kinds, row, strict=True))


def _query(standin: StandIn, sql: str) -> list[Row]:
    """All rows; text stays bytes, as it may be none, and so do decimals."""
    known = {**conversions, FIELD_TYPE.DECIMAL: bytes, FIELD_TYPE.NEWDECIMAL: bytes, FIELD_TYPE.DOUBLE: float}
    with (
        pymysql.connect(
            host=standin.host,
            port=standin.sql_port,
            user="root",
            password="",
            use_unicode=False,
            conv=known,
            ssl_disabled=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        return list(cursor.fetchall())


def _expected(sink: str, kind: str) -> Callable[[Any], Any]:
    """The source's value as this sink has it."""
    if kind == "decimal":
        return Decimal
    if kind in _GEOMETRY and sink == "doris":
        return geometry_text
    return _same


def _read(sink: str, kind: str, sink_kind: str) -> Callable[[Any], Any]:
    """The sink's cell as `comparison` has the source's value."""
    if kind in _BINARY:
        bytes_of = _bytes if sink_kind == "varbinary" else _hex
        return (lambda cell: _number(cell, bytes_of)) if kind == "bit" else bytes_of
    if kind in _GEOMETRY:
        return _text if sink == "doris" else bytes
    return _CELLS.get(kind, _text)


def _same(value: Any) -> Any:
    return value


def _text(cell: Any) -> str:
    return bytes(cell).decode() if isinstance(cell, bytes) else str(cell)


def _hex(cell: Any) -> bytes:
    return bytes.fromhex(_text(cell))


def _bytes(cell: Any) -> bytes:
    return bytes(cell)


def _number(cell: Any, bytes_of: Callable[[Any], bytes]) -> int:
    """BIT(1) is a BOOLEAN, longer ones are binary."""
    return int.from_bytes(bytes_of(cell)) if isinstance(cell, bytes) else int(cell)


def _float(cell: Any) -> bytes:
    """The double that the 32-bit float is."""
    return _double(struct.unpack("f", struct.pack("f", float(cell)))[0])


def _double(cell: Any) -> bytes:
    return struct.pack(">d", float(cell))


def _day(cell: Any) -> str:
    return _text(cell) if isinstance(cell, bytes) else str(cell.isoformat())


def _instant(cell: Any) -> str:
    return _text(cell) if isinstance(cell, bytes) else str(cell.isoformat(" ", "microseconds"))


_CELLS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), int),
    "float": _float, "double": _double, "date": _day, "datetime": _instant, "timestamp": _instant,
    "decimal": lambda cell: Decimal(_text(cell)),
    "time": lambda cell: comparison.span(_text(cell)),
    "vector": lambda cell: struct.pack(f"<{len(json.loads(cell))}f", *json.loads(cell)),
}  # fmt: skip
