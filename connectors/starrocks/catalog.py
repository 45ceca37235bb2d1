"""What is in the server: tables with their columns and keys, read from `information_schema` a database at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc.schema import Column, TableId, TableSchema
from connectors.shared.conversion.target import TargetTable
from connectors.shared.sql.client import Session, text_literal
from connectors.starrocks.types import SqlType, data_type, read_type

_COLUMNS = (
    "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE, COLUMN_SIZE, DECIMAL_DIGITS, IS_NULLABLE, "
    "COLUMN_KEY, COLUMN_DEFAULT, COLUMN_COMMENT FROM information_schema.columns WHERE TABLE_SCHEMA = {database}"
)
_TABLES = "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.tables WHERE TABLE_SCHEMA = {database}"
_DATABASES = "SELECT SCHEMA_NAME FROM information_schema.schemata"
_ONE_TABLE = " AND TABLE_NAME = {table}"


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column that exists. `model` is its COLUMN_KEY: `PRI` in a primary key, empty outside of any key."""

    name: str
    type: SqlType
    nullable: bool = True
    model: str = ""
    default: str | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ActualTable:
    """A table that exists; `key` names its primary key, empty for a table that keeps every row."""

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

    @property
    def foreign_model(self) -> str:
        """UNIQUE or AGGREGATE when it is such a table, which this sink does not write; empty otherwise."""
        models = {"UNI": "UNIQUE", "AGG": "AGGREGATE"}
        return next((models[column.model] for column in self.columns if column.model in models), "")

    def schema(self) -> TableSchema:
        """The table in this tool's types."""
        columns = tuple(
            Column(column.name, data_type(column.type), column.nullable, column.default, column.comment)
            for column in self.columns
        )
        return TableSchema(columns, self.key, self.comment)

    def target(self) -> TargetTable:
        """What rows have to fit into; columns of types that cannot be loaded are left out."""
        targets = (
            column.type.target(column.name, nullable=column.nullable, is_key=self.in_key(column.name))
            for column in self.columns
        )
        return TargetTable(self.id, tuple(item for item in targets if item), self.key, upserts=bool(self.key))


@dataclass
class Layout:
    """Databases and tables as they are, or as they will be after the statements planned so far."""

    databases: set[str] = field(default_factory=set)
    _tables: dict[TableId, ActualTable] = field(default_factory=dict)

    def get(self, table: TableId) -> ActualTable | None:
        """The table, None when there is none. Names of tables and databases are told apart by case."""
        return self._tables.get(table)

    def tables(self) -> dict[TableId, ActualTable]:
        """All tables that were read, by name."""
        return dict(self._tables)

    def put(self, table: ActualTable) -> None:
        """Add the table or replace the one of its name."""
        self.databases.add(table.id.database)
        self._tables[table.id] = table

    def remove(self, table: TableId) -> None:
        """Forget the table."""
        self._tables.pop(table, None)


def same(left: str, right: str) -> bool:
    """Whether StarRocks takes two column names for the same."""
    return left.casefold() == right.casefold()


def read_layout(session: Session, databases: Iterable[str]) -> Layout:
    """Read what is there in these databases; three queries for each. Raises Refused or SinkUnavailable."""
    layout = Layout({str(name) for (name,) in session.rows(_DATABASES)})
    for database in sorted(set(databases) & layout.databases):
        for table in _read_tables(session, database, ""):
            layout.put(table)
    return layout


def read_table(session: Session, table: TableId) -> ActualTable | None:
    """Read one table, None when it does not exist. Raises Refused or SinkUnavailable."""
    where = _ONE_TABLE.format(table=text_literal(table.table))
    return next(iter(_read_tables(session, table.database, where)), None)


def _read_tables(session: Session, database: str, where: str) -> list[ActualTable]:
    literal = text_literal(database)
    columns: dict[str, list[tuple[int, ActualColumn]]] = {}
    for row in session.rows(_COLUMNS.format(database=literal) + where):
        table, name, position, word, size, digits, nullable, model, default, comment = row
        column = ActualColumn(
            str(name),
            read_type(str(word), None if size is None else int(size), None if digits is None else int(digits)),
            nullable=str(nullable).upper() != "NO",
            model=str(model or "").upper(),
            default=None if default is None else str(default),
            comment=str(comment or ""),
        )
        columns.setdefault(str(table), []).append((int(position), column))
    comments = {
        str(name): str(comment or "") for name, comment in session.rows(_TABLES.format(database=literal) + where)
    }
    return [
        _table(TableId(database, name), [column for _, column in sorted(found, key=lambda item: item[0])], comment)
        for name, found in columns.items()
        if (comment := comments.get(name)) is not None
    ]


def _table(table: TableId, columns: list[ActualColumn], comment: str) -> ActualTable:
    key = tuple(column.name for column in columns if column.model == "PRI")
    # The comment of a table without one is shown as the engine's name.
    return ActualTable(table, tuple(columns), key, "" if comment == "OLAP" else comment)
