"""What is in a DuckDB file: tables with their columns and keys, read in two queries however many tables there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc.schema import Column, TableId, TableSchema
from connectors.duckdb.database import Session
from connectors.duckdb.types import data_type

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


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column that exists: its name as written, DuckDB's spelling of its type."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ActualTable:
    """A table that exists."""

    id: TableId
    columns: tuple[ActualColumn, ...]
    key: tuple[str, ...] = ()
    comment: str = ""

    def column(self, name: str) -> ActualColumn | None:
        """The column of that name, None when there is none. Names are the same whatever their case."""
        return next((column for column in self.columns if same(column.name, name)), None)

    def in_key(self, name: str) -> bool:
        """Whether the column is part of the primary key."""
        return any(same(part, name) for part in self.key)

    def schema(self) -> TableSchema:
        """The table in this tool's types."""
        columns = tuple(
            Column(column.name, data_type(column.type), nullable=not self.in_key(column.name), comment=column.comment)
            for column in self.columns
        )
        return TableSchema(columns, self.key, self.comment)


@dataclass
class Layout:
    """All schemas and tables of a file, found by name whatever its case, as in DuckDB."""

    schemas: set[str] = field(default_factory=lambda: {"main"})
    _tables: dict[tuple[str, str], ActualTable] = field(default_factory=dict)

    def get(self, table: TableId) -> ActualTable | None:
        """The table that DuckDB takes for this name, None when there is none."""
        return self._tables.get(_folded(table))

    def put(self, table: ActualTable) -> None:
        """Add the table or replace the one of its name."""
        self.schemas.add(table.id.database.lower())
        self._tables[_folded(table.id)] = table

    def remove(self, table: TableId) -> None:
        """Forget the table."""
        del self._tables[_folded(table)]


def same(left: str, right: str) -> bool:
    """Whether DuckDB takes two names for the same."""
    return left.lower() == right.lower()


def read_layout(session: Session) -> Layout:
    """Read what is there."""
    columns: dict[tuple[str, str], list[ActualColumn]] = {}
    for schema, table, name, sql_type, comment in session.rows(_COLUMNS):
        columns.setdefault((schema, table), []).append(ActualColumn(name, sql_type, comment))
    layout = Layout()
    layout.schemas.update(name.lower() for (name,) in session.rows(
        "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
    ))  # fmt: skip
    for schema, table, comment, key in session.rows(_TABLES):
        id_ = TableId(schema, table)
        layout.put(ActualTable(id_, tuple(columns[schema, table]), tuple(key), comment))
    return layout


def _folded(table: TableId) -> tuple[str, str]:
    return (table.database or "main").lower(), table.table.lower()
