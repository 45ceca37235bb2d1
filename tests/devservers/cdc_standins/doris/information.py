"""`information_schema`, as far as connectors ask it: SCHEMATA, TABLES, COLUMNS."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cdc_standins.doris.catalog import Column, Table
from cdc_standins.doris.engine import Engine
from cdc_standins.doris.errors import sql_error

_DATA_TYPES = {"LARGEINT": "bigint unsigned", "BOOLEAN": "tinyint", "STRING": "string", "JSON": "json"}


def information(engine: Engine, name: str, user: str) -> pa.Table:
    """The rows of a table of `information_schema` that the user may see. Raises SqlError for others."""
    makers = {"schemata": _schemata, "tables": _tables, "columns": _columns}
    maker = makers.get(name)
    if maker is None:
        raise sql_error(f"the stand-in has no information_schema.{name}")
    return maker(engine, user)


def data_type(column: Column) -> str:
    """What DATA_TYPE says: LARGEINT and BOOLEAN go by other names."""
    return _DATA_TYPES.get(column.type.kind, column.type.kind.lower())


def _schemata(engine: Engine, user: str) -> pa.Table:
    names = [db for db in engine.catalog.databases() if db == "information_schema" or engine.accounts.sees(user, db)]
    return pa.table({
        "CATALOG_NAME": pa.array(["internal"] * len(names), pa.string()),
        "SCHEMA_NAME": pa.array(names, pa.string()),
        "DEFAULT_CHARACTER_SET_NAME": pa.array(["utf8mb4"] * len(names), pa.string()),
        "DEFAULT_COLLATION_NAME": pa.array(["utf8mb4_0900_bin"] * len(names), pa.string()),
    })  # fmt: skip


def _seen(engine: Engine, user: str) -> list[Table]:
    return [table for table in engine.catalog.tables() if engine.accounts.sees(user, table.db, table.name)]


def _tables(engine: Engine, user: str) -> pa.Table:
    rows = [
        {"TABLE_CATALOG": "internal", "TABLE_SCHEMA": table.db, "TABLE_NAME": table.name, "TABLE_TYPE": "BASE TABLE",
         "ENGINE": "Doris", "TABLE_COMMENT": table.comment}
        for table in _seen(engine, user)
    ]  # fmt: skip
    names = ("TABLE_CATALOG", "TABLE_SCHEMA", "TABLE_NAME", "TABLE_TYPE", "ENGINE", "TABLE_COMMENT")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))


_COLUMNS = pa.schema([
    ("TABLE_CATALOG", pa.string()), ("TABLE_SCHEMA", pa.string()), ("TABLE_NAME", pa.string()),
    ("COLUMN_NAME", pa.string()), ("ORDINAL_POSITION", pa.int64()), ("COLUMN_DEFAULT", pa.string()),
    ("IS_NULLABLE", pa.string()), ("DATA_TYPE", pa.string()), ("CHARACTER_MAXIMUM_LENGTH", pa.int64()),
    ("CHARACTER_OCTET_LENGTH", pa.int64()), ("NUMERIC_PRECISION", pa.int64()), ("NUMERIC_SCALE", pa.int64()),
    ("DATETIME_PRECISION", pa.int64()), ("COLUMN_TYPE", pa.string()), ("COLUMN_KEY", pa.string()),
    ("EXTRA", pa.string()), ("COLUMN_COMMENT", pa.string()), ("COLUMN_SIZE", pa.int64()),
    ("DECIMAL_DIGITS", pa.int64()),
])  # fmt: skip


def _columns(engine: Engine, user: str) -> pa.Table:
    rows = [
        _column(table, column, position)
        for table in _seen(engine, user)
        for position, column in enumerate(table.columns, 1)
    ]
    return pa.Table.from_pylist(rows, _COLUMNS)


def _column(table: Table, column: Column, position: int) -> dict[str, Any]:
    kind = column.type
    is_text = kind.kind in ("CHAR", "VARCHAR", "STRING")
    is_decimal = kind.kind == "DECIMAL"
    length = (kind.length or 2147483643) if is_text else None
    return {
        "TABLE_CATALOG": "internal", "TABLE_SCHEMA": table.db, "TABLE_NAME": table.name, "COLUMN_NAME": column.name,
        "ORDINAL_POSITION": position, "COLUMN_DEFAULT": column.default,
        "IS_NULLABLE": "YES" if column.nullable else "NO",
        "DATA_TYPE": data_type(column), "CHARACTER_MAXIMUM_LENGTH": length, "CHARACTER_OCTET_LENGTH": length,
        "NUMERIC_PRECISION": kind.length if is_decimal else None, "NUMERIC_SCALE": kind.scale if is_decimal else None,
        "DATETIME_PRECISION": kind.scale if kind.kind == "DATETIME" else None, "COLUMN_TYPE": str(kind),
        "COLUMN_KEY": ("UNI" if table.unique else "DUP") if column.is_key else "", "EXTRA": "",
        "COLUMN_COMMENT": column.comment, "COLUMN_SIZE": kind.length if is_decimal else length,
        "DECIMAL_DIGITS": kind.scale if is_decimal else None,
    }  # fmt: skip
