"""SELECT: on the visible rows through DuckDB, on information_schema, on session variables."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from cdc_standins import sql_server as mysql
from cdc_standins.doris.engine import Engine
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.information import information
from cdc_standins.sql_server import Result
from cdc_standins.sql_text import to_duckdb

_INFORMATION = re.compile(r"(?i)\binformation_schema\s*\.\s*\"?(\w+)\"?")
_VARIABLE = re.compile(r"@@(?:session\.|global\.)?(\w+)")
_FUNCTIONS = (
    (re.compile(r"(?i)\bversion\s*\(\s*\)"), "'5.7.99'"),
    (re.compile(r"(?i)\bcurrent_user\s*\(\s*\)"), "'root'"),
)
_VARIABLES = {
    "version_comment": "Doris version doris-stand-in", "version": "5.7.99", "autocommit": "1", "sql_mode": "",
    "max_allowed_packet": "1073741824", "tx_isolation": "READ-COMMITTED", "time_zone": "UTC",
    "lower_case_table_names": "0", "transaction_isolation": "READ-COMMITTED",
}  # fmt: skip
_WIRE = {
    "BOOLEAN": mysql.TINY, "TINYINT": mysql.TINY, "SMALLINT": mysql.SHORT, "INTEGER": mysql.LONG,
    "BIGINT": mysql.LONGLONG, "UBIGINT": mysql.LONGLONG, "FLOAT": mysql.FLOAT, "DOUBLE": mysql.DOUBLE,
    "DATE": mysql.DATE, "TIMESTAMP": mysql.DATETIME, "BLOB": mysql.BLOB,
}  # fmt: skip


def run_query(engine: Engine, sql: str, db: str, user: str, variables: Mapping[str, str]) -> Result:
    """The rows of a query. Raises SqlError, `duckdb.Error`."""
    known = _VARIABLES | dict(variables)

    def variable(found: re.Match[str]) -> str:
        name = found[1].lower()
        if name not in known:
            raise sql_error(f"Unknown system variable '{name}'")
        return "'" + known[name].replace("'", "''") + "'"

    text = to_duckdb(sql)
    database = "'" + db.replace("'", "''") + "'"
    text = re.sub(r"(?i)\bdatabase\s*\(\s*\)|\bschema\s*\(\s*\)", lambda _: database, text)
    for pattern, value in _FUNCTIONS:
        text = pattern.sub(value, text)
    text = _VARIABLE.sub(variable, text)
    extra: dict[str, pa.Table] = {}

    def from_information(found: re.Match[str]) -> str:
        name = found[1].lower()
        extra[f"info_{name}"] = information(engine, name, user)
        return f"info_{name}"

    text = _INFORMATION.sub(from_information, text)
    check_rights(engine, text, db, user)
    columns, rows = engine.data.query(text, db if db and db != "information_schema" else "main", extra)
    formats = [_format(kind) for _, kind in columns]
    names = tuple((name, _WIRE.get(kind.partition("(")[0], _other(kind))) for name, kind in columns)
    return Result(
        names, [[None if one is None else form(one) for form, one in zip(formats, row, strict=True)] for row in rows]
    )


def _other(kind: str) -> int:
    return mysql.NEWDECIMAL if kind.startswith("DECIMAL") else mysql.VAR_STRING


def check_rights(engine: Engine, text: str, db: str, user: str) -> None:
    """SqlError when the user may not read a table of the query, or there is none of that name."""
    for name in engine.data.tables_in(text):
        parts = [part.strip('"') for part in re.findall(r'"[^"]*"|[^.]+', name)]
        if parts[0].startswith("info_") and len(parts) == 1:
            continue
        if len(parts) == 1 and not db:
            raise sql_error("No database selected", 1046, "3D000")
        in_db, table = parts[-2:] if len(parts) > 1 else (db, parts[0])
        engine.catalog.need(in_db, table)
        if not engine.accounts.may(user, "SELECT_PRIV", in_db, table):
            raise sql_error(
                "Access denied; you need (at least one of) the (SELECT) privilege(s) for this operation, "
                f"table '{table}'",
                1142,
                "42000",
            )


def _format(kind: str) -> Callable[[Any], bytes]:
    if kind == "BOOLEAN":
        return lambda value: b"1" if value else b"0"
    if kind == "FLOAT":
        return lambda value: str(np.float32(value)).encode()
    if kind == "DOUBLE":
        return lambda value: repr(value).encode()
    if kind == "BLOB":
        return bytes
    if kind == "TIMESTAMP":
        return _moment
    return _plain


def _moment(value: Any) -> bytes:
    if not isinstance(value, dt.datetime):
        return str(value).encode()
    text = value.strftime("%H:%M:%S") + (f".{value.microsecond:06}" if value.microsecond else "")
    return f"{value.year:04}-{value.month:02}-{value.day:02} {text}".encode()


def _plain(value: Any) -> bytes:
    if isinstance(value, Decimal):
        return f"{value:f}".encode()
    return str(value).encode()
