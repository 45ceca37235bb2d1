"""Lossless mapping of column types to DuckDB's and back. Pure text, nothing is executed here.

| type | DuckDB | why |
|---|---|---|
| integers | TINYINT .. BIGINT, UTINYINT .. UBIGINT | |
| DECIMAL(p, s) | DECIMAL(p, s), VARCHAR beyond 38 digits | DuckDB's DECIMAL ends at 38 |
| CHAR, VARCHAR, STRING | VARCHAR | lengths are not enforced by DuckDB |
| JSON | JSON | text in the source's own spelling |
| BINARY, VARBINARY, BYTES, GEOMETRY | BLOB | |
| DATE | DATE | |
| TIME | INTERVAL | MySQL's TIME is a signed span up to 838:59:59, DuckDB's TIME is a time of day |
| TIMESTAMP | TIMESTAMP | microseconds |
| TIMESTAMP_LTZ | TIMESTAMPTZ | an instant |
| VECTOR | FLOAT[] | |
"""

from __future__ import annotations

import re

from cdc.schema import Column, DataType, Kind

TEXT, BLOB, INTERVAL, JSON = "VARCHAR", "BLOB", "INTERVAL", "JSON"
TIMESTAMP, TIMESTAMPTZ = "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"

_SQL: dict[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.TINYINT_UNSIGNED: "UTINYINT",
    Kind.SMALLINT_UNSIGNED: "USMALLINT",
    Kind.INT_UNSIGNED: "UINTEGER",
    Kind.BIGINT_UNSIGNED: "UBIGINT",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.CHAR: TEXT,
    Kind.VARCHAR: TEXT,
    Kind.STRING: TEXT,
    Kind.JSON: JSON,
    Kind.BINARY: BLOB,
    Kind.VARBINARY: BLOB,
    Kind.BYTES: BLOB,
    Kind.DATE: "DATE",
    Kind.TIME: INTERVAL,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMP_LTZ: TIMESTAMPTZ,
    Kind.GEOMETRY: BLOB,
    Kind.VECTOR: "FLOAT[]",
}
_KIND = {
    **{sql: kind for kind, sql in _SQL.items() if sql not in (TEXT, BLOB)},
    TEXT: Kind.STRING,
    BLOB: Kind.BYTES,
}
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def duckdb_type(data_type: DataType) -> str:
    """Return the DuckDB type of a column, in DuckDB's own spelling in `duckdb_columns()`."""
    if data_type.kind is Kind.DECIMAL:
        precision = data_type.length or 10
        return f"DECIMAL({precision},{data_type.scale or 0})" if precision <= 38 else TEXT
    return _SQL[data_type.kind]


def data_type(sql: str) -> DataType:
    """Return this tool's nearest type for a DuckDB type; unknown types of foreign tables are STRING."""
    if match := _DECIMAL.fullmatch(sql):
        return DataType(Kind.DECIMAL, int(match[1]), int(match[2]))
    kind = _KIND.get(sql, Kind.STRING)
    return DataType(kind, 6 if kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else None)


def can_be_key(sql: str) -> bool:
    """Return whether DuckDB can index the type: INTERVAL (TIME) and lists cannot be in a PRIMARY KEY."""
    return sql != INTERVAL and not sql.endswith("[]")


def holds(actual: str, wanted: str) -> bool:
    """Return whether an existing column of type `actual` stores every value of `wanted` unchanged."""
    if actual == wanted:
        return True
    if wanted in _SIGNED:
        return actual in _SIGNED[_SIGNED.index(wanted) :]
    if wanted in _UNSIGNED:
        place = _UNSIGNED.index(wanted)
        return actual in _UNSIGNED[place:] or actual in _SIGNED[place + 1 :]
    if old := _DECIMAL.fullmatch(wanted):
        new = _DECIMAL.fullmatch(actual)
        return bool(new) and _digits(new) >= _digits(old) and int(new[2]) >= int(old[2])  # type: ignore[index, arg-type]
    return (actual, wanted) in {("DOUBLE", "FLOAT"), (TEXT, JSON)}


def _digits(decimal: re.Match[str]) -> int:
    return int(decimal[1]) - int(decimal[2])


def text_literal(text: str) -> str:
    """Quote text as a DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"


def default_literal(column: Column) -> str | None:
    """Return SQL for the value of existing rows in a new column; None for NULL.

    A default that is not a literal of the type (`CURRENT_TIMESTAMP`, an expression) becomes NULL.
    """
    if column.default is None:
        return None
    kind, sql = column.type.kind, duckdb_type(column.type)
    if bits := re.fullmatch(r"[bB]'([01]*)'", column.default):
        number = int(bits[1] or "0", 2)
        if sql != BLOB:
            return f"CAST({number} AS {sql})"
        return f"from_hex('{number.to_bytes(column.type.length or 1, 'big').hex()}')"
    if sql == BLOB and (hexadecimal := re.fullmatch(r"0[xX]((?:[0-9A-Fa-f]{2})*)", column.default)):
        return f"from_hex('{hexadecimal[1]}')"
    if sql == BLOB:
        return f"encode({text_literal(column.default)})" if kind is not Kind.GEOMETRY else None
    return f"TRY_CAST({text_literal(column.default)} AS {sql})"
