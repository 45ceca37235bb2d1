"""The tables of a DuckDB file and their schema changes: the driver's side of the dialect.

Two queries for all tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from cdc.errors import ChangeRefused
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, ActualTable, Layout
from cdc.schema import TableId
from connectors.duckdb.database import DuckDbSession, FullNames, first_line
from connectors.duckdb.dialect import DuckDbDialect

_COLUMNS = """
    SELECT schema_name, table_name, column_name, data_type, coalesce(comment, '')
    FROM duckdb_columns() WHERE database_name = current_database() AND NOT internal
    ORDER BY schema_name, table_name, column_index"""
_TABLES = """
    SELECT schema_name, table_name, coalesce(comment, ''),
        coalesce((SELECT first(constraint_column_names) FROM duckdb_constraints() c
                  WHERE c.table_oid = t.table_oid AND c.database_oid = t.database_oid
                  AND constraint_type = 'PRIMARY KEY'), [])
    FROM duckdb_tables() t WHERE database_name = current_database() AND NOT internal"""
_SCHEMAS = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
_REFUSALS = (
    duckdb.BinderException, duckdb.CatalogException, duckdb.ConstraintException, duckdb.ConversionException,
    duckdb.DependencyException, duckdb.InvalidInputException, duckdb.InvalidTypeException,
    duckdb.NotImplementedException, duckdb.OutOfRangeException,
)  # fmt: skip
"""Errors of statements that cannot be applied to a table, as opposed to a failing file."""


class DuckDbSchemas(SchemaSession[str]):
    """Applies schema changes in an open file."""

    def __init__(self, session: DuckDbSession) -> None:
        self._session = session
        self._dialect = DuckDbDialect(session.names)
        # Conversions between local time and instants are in UTC, whatever the machine's zone.
        session.rows("SET TimeZone = 'UTC'")

    @property
    def dialect(self) -> DuckDbDialect:
        """The dialect for this file."""
        return self._dialect

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        """Read all tables of the file with two queries, however many there are."""
        columns: dict[tuple[str, str], list[ActualColumn[str]]] = {}
        for schema, table, name, sql_type, comment in self._session.rows(_COLUMNS):
            columns.setdefault((schema, table), []).append(ActualColumn(name, sql_type, comment=comment))
        found = (
            ActualTable(_id(schema, table), tuple(columns[schema, table]), tuple(key), comment)
            for schema, table, comment, key in self._session.rows(_TABLES)
        )
        return Layout(found, (_database(name) for (name,) in self._session.rows(_SCHEMAS)), ignore_case=True)

    def execute(self, statement: Statement) -> None:
        """Run a statement. Raises ChangeRefused if DuckDB refuses it for this table; other errors propagate."""
        try:
            self._session.rows(statement.sql)
        except _REFUSALS as error:
            hint = "change the values or drop the index or view in DuckDB, or start with a new table"
            raise ChangeRefused(
                first_line(error), where=str(statement.table), hint=hint, resnapshot_helps=True
            ) from error

    def finds(self, query: str) -> bool:
        """Return whether the query finds a row."""
        return bool(self._session.rows(query))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction."""
        with self._session.transaction():
            yield


class NoFile(SchemaSession[str]):
    """A missing file: it has no tables, and nothing can be applied to it."""

    def __init__(self, path: str) -> None:
        self._dialect = DuckDbDialect(FullNames.of_file(path))

    @property
    def dialect(self) -> DuckDbDialect:
        """The dialect for the file under its future name."""
        return self._dialect

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        """Return only the schema that every file has."""
        return Layout(databases=[_database("main")], ignore_case=True)

    def execute(self, statement: Statement) -> None:
        """Refuse: a missing file is only read."""
        raise ChangeRefused("the file does not exist", where=str(statement.table))

    def finds(self, query: str) -> bool:
        """Return False: there are no rows."""
        return False


def _id(schema: str, table: str) -> TableId:
    return TableId(_database(schema), table)


def _database(schema: str) -> str:
    """Return the source's name of a schema; DuckDB's default schema holds tables without a database."""
    return "" if schema == "main" else schema
