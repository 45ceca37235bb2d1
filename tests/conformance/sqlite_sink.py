"""A whole sink for SQLite, as short as one can be: what a connector for a SQL-like system has to bring.

Everything is kept as text in tables called "database.table". The core plans schema changes with the dialect; rows are
staged as JSON lines and loaded with a fence row in one transaction.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused
from cdc.evolution.dialect import Dialect
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, ActualTable, Layout
from cdc.evolution.table_sink import TableSink
from cdc.lines.format import encoded
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, TaskAttempt
from cdc.source import Context
from cdc.state.durable import new_file
from cdc.testing.blocks import images

TEXT = "TEXT"


@dataclass(frozen=True)
class SqliteDialect(Dialect[str]):
    """Types and statements."""

    name = "SQLite"
    ignore_case = True
    transactional = True
    moves_tables = True
    has_comments = False

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def table_name(self, table: TableId) -> str:
        return self.quoted(str(table))

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        return TEXT

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        return actual == TEXT

    def data_type(self, actual: str) -> DataType:
        return DataType(Kind.STRING)

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[str]:
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        return ActualTable(table, columns, schema.primary_key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        return ActualColumn(column.name, TEXT, default=column.default)

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> ActualTable[str]:
        return replace(table, key=key)

    def create_table(self, table: ActualTable[str]) -> Sequence[str]:
        parts = [f"{self.quoted(column.name)} {column.type}" for column in table.columns]
        parts += [f"PRIMARY KEY ({', '.join(map(self.quoted, table.key))})"] if table.key else []
        return [f"CREATE TABLE {self.table_name(table.id)} ({', '.join(parts)})"]

    def truncate_table(self, table: TableId) -> str:
        return f"DELETE FROM {self.table_name(table)}"

    def rename_table(self, table: TableId, new_name: str) -> str:
        return f"ALTER TABLE {self.table_name(table)} RENAME TO {self.table_name(TableId(table.database, new_name))}"

    def add_column(self, table: ActualTable[str], column: ActualColumn[str], after: str | None) -> Sequence[str]:
        default = "" if column.default is None else f" DEFAULT {self.literal(column.default)}"
        return [f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {self.quoted(column.name)} {column.type}{default}"]

    def modify_column(self, table: ActualTable[str], column: ActualColumn[str], value: str) -> str:
        return f"UPDATE {self.table_name(table.id)} SET {self.quoted(column.name)} = {value}"

    def swap_shadow(self, copy: TableId, table: ActualTable[str]) -> Sequence[str]:
        return [self.drop_table(table.id), self.rename_table(copy, table.id.table)]


class SqliteSchemas(SchemaSession[str]):
    """Schema changes in an open file."""

    dialect = SqliteDialect()

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        found = []
        for table in tables:
            rows = self._connection.execute(f"PRAGMA table_info({self.dialect.table_name(table)})").fetchall()
            key = tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])
            found += [ActualTable(table, tuple(ActualColumn(row[1], row[2]) for row in rows), key)] if rows else []
        return Layout(found, {table.database for table in tables}, ignore_case=True)

    def execute(self, statement: Statement) -> None:
        try:
            self._connection.execute(statement.sql)
        except sqlite3.Error as error:
            raise ChangeRefused(str(error), where=str(statement.table), hint="see the statement") from error

    def finds(self, query: str) -> bool:
        return self._connection.execute(query).fetchone() is not None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with in_transaction(self._connection):
            yield


class SqliteSink(TableSink[str]):
    """Rows: staged by `prepare`, loaded by `commit`."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.EQUAL

    def __init__(self, path: Path, context: Context) -> None:
        super().__init__(context)
        self._path, self._folder = path, context.store.bulk("staged")

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[SqliteSchemas]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            yield SqliteSchemas(connection)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        tables: dict[TableId, list[tuple[str, tuple[str, ...], dict[str, Any]]]] = {}
        for block in blocks:
            types = {column.name: column.type for column in block.schema.columns}
            for symbol, row in images([block]):
                cells = {name: cell(value, types[name]) for name, value in row.items()}
                tables.setdefault(block.table, []).append((symbol, block.schema.primary_key, cells))
        return [self._staged(task, table, changes) for table, changes in tables.items()]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection, in_transaction(connection):
            connection.execute("CREATE TABLE IF NOT EXISTS _fence (batch INTEGER)")
            if connection.execute("SELECT 1 FROM _fence WHERE batch >= ?", [batch]).fetchone() is None:
                for item in prepared:
                    for symbol, key, row in json.loads((self._folder / item.handle).read_text(encoding="utf-8")):
                        change(connection, item.table, symbol, key, row)
                connection.execute("INSERT INTO _fence VALUES (?)", [batch])
        self.abort(batch)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        shutil.rmtree(self._folder / str(batch), ignore_errors=True)

    def _staged(self, task: TaskAttempt, table: TableId, changes: list[Any]) -> Prepared:
        name = f"{task.batch}/{task.partition}-{task.attempt}-{hashlib.sha256(str(table).encode()).hexdigest()}"
        with new_file(self._folder / name) as file:
            file.write(json.dumps(changes).encode())
        counts = [sum(symbol == wanted for symbol, _, _ in changes) for wanted in ("+I", "+U", "-D")]
        return Prepared(table, task.partition, name, *counts)


def change(connection: sqlite3.Connection, table: TableId, symbol: str, key: list[str], row: dict[str, Any]) -> None:
    """One row image: deleted by its key, or one of the rows like it; inserts replace."""
    name, quoted = SqliteDialect().table_name(table), SqliteDialect().quoted
    if symbol in ("-U", "-D"):
        same = " AND ".join(f"{quoted(part)} IS ?" for part in key or row)
        query = f"SELECT rowid FROM {name} WHERE {same} LIMIT 1"
        connection.execute(f"DELETE FROM {name} WHERE rowid = ({query})", [row[part] for part in key or row])
    else:
        values = f"({', '.join(map(quoted, row))}) VALUES ({', '.join('?' * len(row))})"
        connection.execute(f"INSERT OR REPLACE INTO {name} {values}", list(row.values()))


def cell(value: Any, data_type: DataType) -> str | None:
    """A value as text."""
    plain = encoded(value, data_type)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain)


@contextmanager
def in_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
