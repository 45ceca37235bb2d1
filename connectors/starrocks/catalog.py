"""Read the server's tables, with columns and keys, from `information_schema`, one database at a time."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.evolution.table import ActualColumn, ActualTable
from cdc.schema import TableId
from connectors.shared.conversion.target import TargetTable
from connectors.shared.sql.client import SqlSession
from connectors.shared.sql.text import text_literal
from connectors.shared.streamload.sql_types import SqlType
from connectors.starrocks.types import SECONDS_DIGITS, read_type

_COLUMNS = (
    "SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE, COLUMN_SIZE, DECIMAL_DIGITS, IS_NULLABLE, "
    "COLUMN_KEY, COLUMN_DEFAULT, COLUMN_COMMENT FROM information_schema.columns WHERE TABLE_SCHEMA = {database}"
)
_TABLES = "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.tables WHERE TABLE_SCHEMA = {database}"
_FOREIGN = {"UNI": "UNIQUE", "AGG": "AGGREGATE"}
_ONE_TABLE = " AND TABLE_NAME = {table}"


@dataclass(frozen=True)
class StarRocksTable(ActualTable[SqlType]):
    """A table that exists in StarRocks.

    Attributes:
        sorted_by: the columns of a key that is no primary key; they cannot be altered freely.
        foreign_model: UNIQUE or AGGREGATE for a table of that model, which this sink does not write; otherwise empty.
    """

    sorted_by: tuple[str, ...] = ()
    foreign_model: str = ""

    def target(self) -> TargetTable:
        """The limits that rows must keep; columns of types that cannot be loaded are left out."""
        targets = (
            column.type.target(
                column.name, nullable=column.nullable, is_key=self.in_key(column.name), digits=SECONDS_DIGITS
            )
            for column in self.columns
        )
        return TargetTable(self.id, tuple(item for item in targets if item), self.key, upserts=bool(self.key))


def read_database(session: SqlSession, database: str) -> list[StarRocksTable]:
    """Read all tables of a database with two queries. Raises Refused or SinkUnavailable."""
    return _read_tables(session, database, "")


def read_target(session: SqlSession, table: TableId) -> TargetTable | None:
    """The limits that rows of a table must keep; None when it does not exist. Raises Refused or SinkUnavailable."""
    where = _ONE_TABLE.format(table=text_literal(table.table))
    return next((found.target() for found in _read_tables(session, table.database, where)), None)


def read_targets(session: SqlSession, database: str) -> dict[TableId, TargetTable]:
    """The limits that rows must keep, for every table of a database. Raises Refused or SinkUnavailable."""
    return {table.id: table.target() for table in read_database(session, database)}


def _read_tables(session: SqlSession, database: str, where: str) -> list[StarRocksTable]:
    literal = text_literal(database)
    columns: dict[str, list[tuple[int, str, ActualColumn[SqlType]]]] = {}
    for row in session.rows(_COLUMNS.format(database=literal) + where):
        table, name, position, word, size, digits, nullable, model, default, comment = row
        column = ActualColumn(
            str(name),
            read_type(str(word), None if size is None else int(size), None if digits is None else int(digits)),
            nullable=str(nullable).upper() != "NO",
            default=None if default is None else str(default),
            comment=str(comment or ""),
        )
        columns.setdefault(str(table), []).append((int(position), str(model or "").upper(), column))
    comments = {
        str(name): str(comment or "") for name, comment in session.rows(_TABLES.format(database=literal) + where)
    }
    return [
        _table(TableId(database, name), sorted(found, key=lambda item: item[0]), comment)
        for name, found in columns.items()
        if (comment := comments.get(name)) is not None
    ]


def _table(table: TableId, found: list[tuple[int, str, ActualColumn[SqlType]]], comment: str) -> StarRocksTable:
    """The table in these rows. COLUMN_KEY tells its model: key columns have PRI, UNI or AGG, others something else."""
    return StarRocksTable(
        table,
        tuple(column for _, _, column in found),
        tuple(column.name for _, model, column in found if model == "PRI"),
        # A table without a comment shows the engine's name instead.
        "" if comment == "OLAP" else comment,
        tuple(column.name for _, model, column in found if model),
        next((_FOREIGN[model] for _, model, _ in found if model in _FOREIGN), ""),
    )
