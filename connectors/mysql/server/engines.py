"""Storage engines without transactions: their tables cannot be read as of one position of the log. Driver."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import rows_of_databases
from connectors.mysql.server.server_info import where_of
from connectors.shared.sql.text import quoted

_ENGINES = (
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.ENGINE FROM information_schema.TABLES t "
    "LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE "
    "WHERE t.ENGINE IS NOT NULL AND coalesce(upper(e.TRANSACTIONS), 'NO') <> 'YES' AND"
)


def without_transactions(connection: MySqlConnection, tables: Collection[TableId]) -> dict[TableId, str]:
    """Return the engine of each of these tables that cannot be snapshotted, sorted by table. Raises SourceError."""
    databases = sorted({table.database for table in tables})
    rows = rows_of_databases(connection, _ENGINES, databases, column="t.TABLE_SCHEMA")
    found = {TableId(str(row[0]), str(row[1])): str(row[2]) for row in rows}
    return {table: found[table] for table in sorted(found) if table in tables}


def check_engines(connection: MySqlConnection, copied: Collection[TableId]) -> None:
    """Raise one SourceError that names every table that cannot be snapshotted."""
    if found := without_transactions(connection, copied):
        raise no_view(found, where_of(connection))


def no_view(engines: Mapping[TableId, str], server: str) -> SourceError:
    """Return the error for tables without consistent views; `engines` by table, at least one."""
    if len(engines) == 1:
        ((table, engine),) = engines.items()
        message, where = f"a table of the engine {engine} cannot be read", f"{table} on {server}"
        moment = "at one moment of the log while it is written to"
    else:
        names = ", ".join(f"{table} ({engine})" for table, engine in engines.items())
        message, where = f"{len(engines)} tables of engines without transactions cannot be read", f"{names} on {server}"
        moment = "at one moment of the log while they are written to"
    fixes = "; ".join(map(to_innodb, engines))
    leave = "the table" if len(engines) == 1 else "the tables"
    hint = f"run {fixes}, or leave {leave} out with tables.exclude"
    return SourceError(f"{message} {moment}", where=where, hint=hint)


def to_innodb(table: TableId) -> str:
    """Return the statement that gives a table an engine with transactions."""
    return f"ALTER TABLE {quoted(table.database, table.table)} ENGINE=InnoDB"
