"""MariaDB's system-versioned tables: two columns of their own, even if none is declared, and a longer key.

The log has every version of a row, with these columns; `information_schema` hides them unless they are declared.
"""

from __future__ import annotations

from dataclasses import replace

from cdc.errors import UnsupportedChange
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.shared.ddl.statements import AlterTableStatement, DropColumnClause, VersioningClause

ROW_VERSIONS = tuple(
    MySqlColumn(name, "timestamp", 6, nullable=False, generated=True) for name in ("row_start", "row_end")
)
"""The columns of a system-versioned table that declares none."""
NEVER = "2038-01-19 03:14:07.999999"
"""End of the current version; existing rows get it when the server begins to keep versions."""


def declared_versions(table: MySqlTable) -> tuple[MySqlColumn, ...]:
    """Return the version columns that a MariaDB table declares: other computed columns are nullable there."""
    return tuple(column for column in table.columns if column.generated and not column.nullable)


def by_transaction(table: MySqlTable) -> bool:
    """Return whether versions are identified by transaction ids, not time; MariaDB logs those changes as statements."""
    return any(column.type == "bigint" for column in declared_versions(table))


def with_own_versions(table: MySqlTable, statement: AlterTableStatement, *, captured: bool) -> AlterTableStatement:
    """Return the statement with versioning on if it only drops declared version columns: the server adds its own.

    Raises UnsupportedChange if those of a captured table are transaction ids.
    """
    dropped = {clause.name.lower() for clause in statement.clauses if isinstance(clause, DropColumnClause)}
    gone = any(column.name.lower() in dropped for column in declared_versions(table))
    if not gone or any(isinstance(clause, VersioningClause) for clause in statement.clauses):
        return statement
    if captured and by_transaction(table):
        raise UnsupportedChange(
            "the columns of its versions were dropped, and the server goes on with hidden ids of transactions, which "
            "are not read",
            where=str(table.id),
            hint="on the source: ALTER TABLE ... DROP SYSTEM VERSIONING; and leave it out with tables.exclude until "
            "the log is read to its end",
        )
    return replace(statement, clauses=(*statement.clauses, VersioningClause(True)))


def with_versions(table: MySqlTable, row_end: str | None) -> MySqlTable:
    """Return the table as logged rows have it; `row_end` is the declared column, None when the server adds its own."""
    columns = table.columns if row_end is not None else (*table.columns, *ROW_VERSIONS)
    end = row_end or ROW_VERSIONS[1].name
    key = table.primary_key if end in table.primary_key else (*table.primary_key, end)
    return replace(table, columns=columns, primary_key=key if table.primary_key else ())


def without_versions(table: MySqlTable) -> MySqlTable:
    """Return the table as declared, without the server's own columns."""
    end = ROW_VERSIONS[1].name
    key = tuple(name for name in table.primary_key if name != end)
    return replace(table, columns=table.columns[:-2], primary_key=key)
