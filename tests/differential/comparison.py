"""Compares a source table with its sink table value by value. Both sides become the same plain Python values first."""

from __future__ import annotations

import datetime
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from cdc_process import Pipeline

from cdc_services.server import MySqlServer

Row = tuple[Any, ...]
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_BYTES = frozenset({
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
    "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection", "vector",
})  # fmt: skip
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})


def differences(server: MySqlServer, pipeline: Pipeline, databases: list[str], but: Collection[str] = ()) -> list[str]:
    """What is not equal, one line each; empty when every table of the databases has the same columns and rows.

    `but`: tables, such as `shop.orders`, that are not compared.
    """
    with pipeline.reading():
        return list(_differences(server, pipeline, databases, but))


def _differences(server: MySqlServer, pipeline: Pipeline, databases: list[str], but: Collection[str]) -> Iterator[str]:
    source = source_columns(server, databases)
    names = ", ".join(f"'{database}'" for database in databases)
    found: dict[tuple[str, str], set[str]] = {}
    for database, table, column in pipeline.query(
        f"SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE schema_name IN ({names})"
    ):
        found.setdefault((database, table), set()).add(column)
    yield from (f"{table}: not in the sink" for table in sorted(source.keys() - found.keys()))
    yield from (f"{table}: only in the sink" for table in sorted(found.keys() - source.keys()))
    for table in sorted(source.keys() & found.keys()):
        if ".".join(table) in but:
            continue
        yield from _compare(server, pipeline, table, source[table], found[table])


def source_columns(server: MySqlServer, databases: list[str]) -> dict[tuple[str, str], dict[str, str]]:
    """Tables, their columns and the columns' types."""
    names = ", ".join(f"'{database}'" for database in databases)
    tables: dict[tuple[str, str], dict[str, str]] = {}
    for database, table, column, kind in server.execute(
        "SELECT c.table_schema, c.table_name, c.column_name, c.data_type FROM information_schema.columns c "
        "JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name "
        f"WHERE c.table_schema IN ({names}) AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') "
        "ORDER BY 1, 2, c.ordinal_position"
    ):
        kind = kind.decode() if isinstance(kind, bytes) else kind
        tables.setdefault((database, table), {})[column] = kind.lower()
    return tables


def _compare(
    server: MySqlServer, pipeline: Pipeline, table: tuple[str, str], columns: dict[str, str], sink_columns: set[str]
) -> list[str]:
    name = ".".join(table)
    if set(columns) != sink_columns:
        return [f"{name}: columns {sorted(columns)} in the source, {sorted(sink_columns)} in the sink"]
    source = Counter(source_rows(server, table, columns))
    sink = Counter(sink_rows(pipeline, table, columns))
    return unequal(name, columns, source, sink)


def unequal(name: str, columns: dict[str, str], source: Counter[Row], sink: Counter[Row]) -> list[str]:
    """What two tables' rows differ in, for people; empty when they are equal."""
    if source == sink:
        return []
    missing, extra = list((source - sink).elements()), list((sink - source).elements())
    lines = [f"{name}: {source.total()} rows in the source, {sink.total()} in the sink"]
    for row in missing[:4]:
        lines += [f"  only in the source: {_shown(columns, row, _nearest(row, extra))}"]
    for row in extra[:4]:
        lines += [f"  only in the sink:   {_shown(columns, row, _nearest(row, missing))}"]
    return ["\n".join(lines)]


def _nearest(row: Row, others: list[Row]) -> Row | None:
    return max(others, key=lambda other: sum(a == b for a, b in zip(row, other, strict=True)), default=None)


def _shown(columns: dict[str, str], row: Row, nearest: Row | None) -> str:
    """The columns in which a row differs from the most similar one of the other side, and its first column."""
    parts = []
    for index, (column, kind) in enumerate(columns.items()):
        if index == 0 or nearest is None or nearest[index] != row[index]:
            parts.append(f"{column} {kind} {row[index]!r}"[:200])
    return ", ".join(parts)


def source_rows(server: MySqlServer, table: tuple[str, str], columns: dict[str, str]) -> list[Row]:
    """All rows as plain Python values."""
    select = ", ".join(_source_expression(column, kind) for column, kind in columns.items())
    connection = server.connect(conv={})
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {select} FROM {_backquoted(table[0])}.{_backquoted(table[1])}")
            kinds = [_SOURCE.get(kind, _as_is) for kind in columns.values()]
            return [_row(kinds, row) for row in cursor.fetchall()]
    finally:
        connection.close()


def sink_rows(pipeline: Pipeline, table: tuple[str, str], columns: dict[str, str]) -> list[Row]:
    """The same of a table of the sink."""
    select = ", ".join(_sink_expression(column, kind) for column, kind in columns.items())
    rows = pipeline.query(f"SELECT {select} FROM {_quoted(table[0])}.{_quoted(table[1])}")
    kinds = [_SINK.get(kind, _as_is) for kind in columns.values()]
    return [_row(kinds, row) for row in rows]


def _row(kinds: list[Callable[[Any], Any]], row: Row) -> Row:
    return tuple(None if value is None else kind(value) for kind, value in zip(kinds, row, strict=True))


def _source_expression(column: str, kind: str) -> str:
    name = _backquoted(column)
    if kind == "float":
        return f"({name} * 1e0)"
    if kind == "bit":
        return f"{name} + 0"
    if kind in _BYTES:
        return f"HEX({name})"
    if kind in ("date", "time", "datetime", "timestamp", "json", "uuid", "inet4", "inet6", "decimal"):
        return f"CAST({name} AS CHAR)"
    return name


def _sink_expression(column: str, kind: str) -> str:
    name = _quoted(column)
    if kind == "float":
        return f"CAST({name} AS DOUBLE)"
    if kind in ("decimal", "date", "json"):
        return f"CAST({name} AS VARCHAR)"
    if kind in ("datetime", "timestamp"):
        return f"CAST({name} AS TIMESTAMP)"
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _as_is(value: Any) -> Any:
    return value


def _number(value: Any) -> int:
    return int.from_bytes(value) if isinstance(value, bytes) else int(value)


def _double(value: Any) -> bytes:
    """The bits, so that -0.0 is not 0.0."""
    return struct.pack(">d", float(value))


def _date(text: str) -> str | None:
    """NULL for dates no calendar has, as the source's `invalid-dates: null` has it."""
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _instant(text: str) -> str | None:
    day, _, time = text.partition(" ")
    whole, _, fraction = time.partition(".")
    return None if _date(day) is None else f"{day} {whole}.{fraction.ljust(6, '0')}"


def span(text: str) -> datetime.timedelta:
    """A TIME."""
    match = _TIME.fullmatch(text)
    assert match is not None, text
    sign, hours, minutes, seconds, fraction = match.groups()
    span = datetime.timedelta(
        hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=int((fraction or "").ljust(6, "0"))
    )
    return -span if sign else span


def _digits(text: str) -> str:
    """DuckDB shows a DECIMAL(30, 30) without the zero before the point."""
    return re.sub(r"^(-?)\.", r"\g<1>0.", text)


def _vector(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


_SOURCE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(_BYTES, bytes.fromhex),
    "bit": int, "float": _double, "double": _double, "date": _date, "datetime": _instant, "timestamp": _instant,
    "time": span,
}  # fmt: skip
_SINK: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(_BYTES, bytes),
    "bit": _number, "float": _double, "double": _double, "vector": _vector,
    "decimal": _digits,
    "datetime": lambda value: value.isoformat(" ", "microseconds"),
    "timestamp": lambda value: value.isoformat(" ", "microseconds"),
}  # fmt: skip
