"""The tables of a DuckDB file and their changes: the driver's side of the dialect. Two queries for all tables."""

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
"""What DuckDB says when a statement cannot be carried out on this table, as against a file that fails."""


class DuckDbSchemas(SchemaSession[str]):
    """Schema changes in an open file."""

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
        """All tables of the file: two queries, however many there are."""
        columns: dict[tuple[str, str], list[ActualColumn[str]]] = {}
        for schema, table, name, sql_type, comment in self._session.rows(_COLUMNS):
            columns.setdefault((schema, table), []).append(ActualColumn(name, sql_type, comment=comment))
        found = (
            ActualTable(_id(schema, table), tuple(columns[schema, table]), tuple(key), comment)
            for schema, table, comment, key in self._session.rows(_TABLES)
        )
        return Layout(found, (_database(name) for (name,) in self._session.rows(_SCHEMAS)), ignore_case=True)

    def execute(self, statement: Statement) -> None:
        """Raises ChangeRefused for what DuckDB refuses on this table; other errors go up."""
        try:
            self._session.rows(statement.sql)
        except _REFUSALS as error:
            hint = "change the values or drop the index or view in DuckDB, or start with a new table"
            raise ChangeRefused(first_line(error), where=str(statement.table), hint=hint, curable=True) from error

    def finds(self, query: str) -> bool:
        """Whether the query finds a row."""
        return bool(self._session.rows(query))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        with self._session.transaction():
            yield


class NoFile(SchemaSession[str]):
    """A file that does not exist: nothing is in it, and nothing can be carried out."""

    def __init__(self, path: str) -> None:
        self._dialect = DuckDbDialect(FullNames.of_file(path))

    @property
    def dialect(self) -> DuckDbDialect:
        """The dialect for the file under its later name."""
        return self._dialect

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        """Only the schema that every file has."""
        return Layout(databases=[_database("main")], ignore_case=True)

    def execute(self, statement: Statement) -> None:
        """Never: it is only looked at."""
        raise ChangeRefused("the file does not exist", where=str(statement.table))

    def finds(self, query: str) -> bool:
        """Never."""
        return False


def _id(schema: str, table: str) -> TableId:
    return TableId(_database(schema), table)


def _database(schema: str) -> str:
    """The source's name of a schema: DuckDB's own is where tables without a database are."""
    return "" if schema == "main" else schema
