"""Rows of DuckDB as the MySQL protocol's text results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from cdc_standins import sql_server
from cdc_standins.sql_server import Result

_WIRE = {
    "BOOLEAN": sql_server.TINY,
    "TINYINT": sql_server.TINY,
    "SMALLINT": sql_server.SHORT,
    "INTEGER": sql_server.LONG,
    "BIGINT": sql_server.LONGLONG,
    "UBIGINT": sql_server.LONGLONG,
    "HUGEINT": sql_server.LONGLONG,
    "FLOAT": sql_server.FLOAT,
    "DOUBLE": sql_server.DOUBLE,
    "DATE": sql_server.DATE,
    "TIMESTAMP": sql_server.DATETIME,
    "TIMESTAMP WITH TIME ZONE": sql_server.DATETIME,
    "BLOB": sql_server.BLOB,
}


def duckdb_result(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]], largeints: Collection[str]
) -> Result:
    """A result with wire types. `largeints`: columns that go as strings, as LARGEINT does; a sum goes as a number."""
    wire = tuple((name, _wire(name, kind, largeints)) for name, kind in columns)
    floats = [position for position, (_, kind) in enumerate(columns) if kind == "FLOAT"]
    cells = [[cell(value) for value in row] for row in rows]
    for row in cells:
        for position in floats:
            row[position] = _single(row[position])
    return Result(wire, cells)


def cell(value: Any) -> bytes | None:
    """A value as the server prints it."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, datetime):
        plain = value.replace(tzinfo=None)
        return plain.isoformat(" ", "microseconds" if plain.microsecond else "seconds").encode()
    if isinstance(value, date):
        return value.isoformat().encode()
    if isinstance(value, float):
        return _float(value)
    return str(value).encode()


def _wire(name: str, kind: str, largeints: Collection[str]) -> int:
    if kind.startswith("DECIMAL"):
        return sql_server.NEWDECIMAL
    if kind == "HUGEINT" and name.lower() in largeints:
        return sql_server.VAR_STRING
    return _WIRE.get(kind, sql_server.VAR_STRING)


def _single(text: bytes | None) -> bytes | None:
    """The shortest text of a FLOAT, which came as a longer DOUBLE."""
    return None if text is None else str(np.float32(text)).removesuffix(".0").encode()


def _float(value: float) -> bytes:
    text = repr(value)
    return (text[:-2] if text.endswith(".0") else text).encode()
