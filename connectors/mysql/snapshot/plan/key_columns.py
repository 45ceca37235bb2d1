"""The split columns of a table, queried from the server when its first chunk is planned. Stream reader process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from cdc.errors import SourceError
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import Row, query
from connectors.mysql.snapshot.plan.bounds import splittable
from connectors.mysql.table import MySqlTable

OPTION = "scan.incremental.snapshot.chunk.key-column"

_INDEXES = (
    "SELECT INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, NULLABLE, INDEX_TYPE "
    "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
_COLLATIONS = (
    "SELECT COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Split columns with their collations, and the index that begins with them. Empty: the table is one chunk."""

    columns: tuple[str, ...] = ()
    collations: tuple[str | None, ...] = ()
    index: str = ""


def key_columns(connection: MySqlConnection, table: MySqlTable, chosen: str | None) -> KeyColumns:
    """Return the splittable leading columns of the primary key, else of a unique key without NULLs.

    `chosen` is a column configured instead. Raises SourceError when it is unsuitable.
    """
    where = (table.id.database, table.id.table)
    indexes: dict[str, list[Row]] = defaultdict(list)
    for row in query(connection, _INDEXES, where):
        indexes[str(row[0])].append(row)
    collations = {str(row[0]): row[1] for row in query(connection, _COLLATIONS, where)}
    if chosen is not None:
        index, columns = _index_of_chosen(table, indexes, chosen)
    else:
        index, columns = _own(table, indexes)
    return KeyColumns(columns, tuple(collations.get(column) for column in columns), index if columns else "")


def _own(table: MySqlTable, indexes: Mapping[str, list[Row]]) -> tuple[str, tuple[str, ...]]:
    """Return the columns of the primary or a unique key, up to the first that cannot split; empty without any."""
    unique = sorted(
        (name for name, rows in indexes.items() if _is_unique(rows)), key=lambda name: (name != "PRIMARY", name)
    )
    for name in unique if not table.primary_key else unique[:1]:
        columns = _leading(table, indexes[name])
        if columns:
            return name, columns
    return "", ()


def _is_unique(rows: list[Row]) -> bool:
    return all(int(row[1]) == 0 and row[5] != "YES" and row[3] is not None for row in rows)


def _leading(table: MySqlTable, rows: list[Row]) -> tuple[str, ...]:
    known = {column.name.lower(): column for column in table.columns}
    found: list[str] = []
    for row in rows:
        column = known.get(str(row[3]).lower())
        if column is None or row[4] is not None or str(row[6]) != "BTREE" or not splittable(column):
            break
        found.append(column.name)
    return tuple(found)


def _index_of_chosen(table: MySqlTable, indexes: Mapping[str, list[Row]], chosen: str) -> tuple[str, tuple[str, ...]]:
    column = next((column for column in table.columns if column.name.lower() == chosen.lower()), None)
    if column is None:
        raise SourceError(f"there is no column {chosen}", where=str(table.id), hint=f"correct {OPTION}")
    if not splittable(column):
        raise SourceError(
            f"the table cannot be split by {chosen}, a column of type {column.type}",
            where=str(table.id),
            hint=f"name a column of integers, dates or short text in {OPTION}",
        )
    if table.primary_key and column.name not in table.primary_key:
        raise SourceError(
            f"{chosen} is not a column of the primary key: a row whose {chosen} changes would be lost",
            where=str(table.id),
            hint=f"name one of {', '.join(table.primary_key)} in {OPTION}",
        )
    for name, rows in sorted(indexes.items(), key=lambda item: (item[0] != "PRIMARY", item[0])):
        if str(rows[0][3]).lower() == column.name.lower() and rows[0][4] is None and str(rows[0][6]) == "BTREE":
            return name, (column.name,)
    raise SourceError(
        f"no index begins with {chosen}, so every chunk would read the whole table",
        where=str(table.id),
        hint=f"create an index on it, or name another column in {OPTION}",
    )
