"""Databases and tables: the journal has the truth, DuckDB a view for each table over its numbered columns.

A crash may leave DuckDB ahead: it is brought to what the journal says at the next start.
Names are case-sensitive here as on the server; DuckDB's are not, so two names that differ only in case are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from cdc_standins.data import Data, StoredColumn
from cdc_standins.journal import Journal
from cdc_standins.sql_server import SqlError
from cdc_standins.sql_text import quoted
from cdc_standins.starrocks.errors import analysis, analyzing, refused, unknown_database, unknown_table
from cdc_standins.starrocks.schema import NOW, Column, Table, from_json, to_json
from cdc_standins.starrocks.transactions import Transaction

INFORMATION = "information_schema"
SYSTEM = (INFORMATION, "sys", "_statistics_")


class Catalog:
    """All databases and tables, for many threads; DDL is serialised by `lock`, and `generation` counts it."""

    def __init__(self, journal: Journal, data: Data) -> None:
        self.lock = threading.RLock()
        self._journal, self._data = journal, data
        self.generation = 0
        self.on_change: Callable[[Table], None] = lambda _: None
        self._databases = {name: int(number) for name, number in journal.all("database").items()}
        tables = (from_json(document) for document in journal.all("table").values())
        self._tables = {(table.database, table.name): table for table in tables}
        self._repair()

    @property
    def databases(self) -> dict[str, int]:
        """Database ids by name."""
        return dict(self._databases)

    def tables(self, database: str) -> list[Table]:
        """The tables of a database by name. Raises SqlError for a database that does not exist."""
        self.database_id(database)
        return sorted((it for it in self._tables.values() if it.database == database), key=lambda it: it.name)

    def database_id(self, name: str) -> int:
        """Raises SqlError (1049) for a database that does not exist."""
        number = self._databases.get(name)
        if number is None:
            raise unknown_database(name)
        return number

    def find(self, database: str, name: str) -> Table | None:
        """The table, or None."""
        return self._tables.get((database, name))

    def table(self, database: str, name: str) -> Table:
        """The table. Raises SqlError for one that does not exist."""
        self.database_id(database)
        table = self.find(database, name)
        if table is None:
            raise unknown_table(database, name)
        return table

    def by_id(self, number: int) -> Table | None:
        """The table with that id, or None when it was dropped."""
        return next((table for table in self._tables.values() if table.id == number), None)

    def table_of(self, transaction: Transaction) -> Table:
        """The table that a transaction loads into. Raises LoadFailure when it was dropped."""
        table = self.by_id(transaction.table_id)
        if table is None:
            raise analysis(f'unknown table "{transaction.database}.{transaction.table}"')
        return table

    def create_database(self, name: str) -> None:
        """Raises SqlError (1007) when it exists."""
        with self.lock:
            if name in self._databases or name in SYSTEM:
                raise SqlError(f"Can't create database '{name}'; database exists", 1007)
            _unlike(name, self._databases, "database")
            self._data.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")
            number = self._journal.next_number("id", 10_001)
            self._journal.put("database", name, number)
            self.generation += 1
            self._databases[name] = number

    def drop_database(self, name: str) -> None:
        """With all its tables."""
        with self.lock:
            for table in self.tables(name):
                self.drop_table(table)
            self._journal.remove("database", name)
            self._databases.pop(name)
            self.generation += 1
            if name.lower() != "main":
                self._data.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")

    def create_table(self, table: Table) -> Table:
        """Make a table whose ids are not set yet. Raises SqlError (1050) when it exists."""
        with self.lock:
            self.database_id(table.database)
            if self.find(table.database, table.name) is not None:
                raise SqlError(f"Table '{table.name}' already exists", 1050, "42S01")
            _unlike(table.name, (it.name for it in self.tables(table.database)), "table")
            table = replace(table, id=self._journal.next_number("id", 10_001)).with_columns(table.columns)
            return self._keep(self._with_data(table), None)

    def drop_table(self, table: Table) -> None:
        """The rows go too."""
        with self.lock:
            self._journal.remove("table", table.id)
            self._tables.pop((table.database, table.name))
            self.generation += 1
            self._data.execute(f"DROP VIEW IF EXISTS {_view(table)}", f"DROP TABLE IF EXISTS {_rows(table)}")

    def truncate(self, table: Table) -> None:
        """New, empty storage: rows that were prepared for the old one are lost with it."""
        with self.lock:
            self._keep(self._with_data(table), table)
            self._data.execute(f"DROP TABLE IF EXISTS {_rows(table)}")

    def rename(self, table: Table, name: str) -> None:
        """Raises SqlError when the name is taken."""
        with self.lock:
            if self.find(table.database, name) is not None:
                raise refused(f"Table name[{name}] is already used")
            others = (it.name for it in self.tables(table.database) if it.id != table.id)
            _unlike(name, others, "table")
            self._keep(replace(table, name=name), table)

    def swap(self, left: Table, right: Table) -> None:
        """Each table gets the other's name."""
        with self.lock, self._journal.together():
            self._keep(replace(left, name=right.name), None)
            self._keep(replace(right, name=left.name), None)

    def replace(self, old: Table, new: Table) -> Table:
        """Carry out a schema change: columns come, go and change type; the rows stay."""
        with self.lock:
            kept = self._keep(new, old, self._fitting(new))
            self._drop_columns(kept)
            return kept

    def default(self, column: Column) -> str:
        """The default of a column as SQL, for rows that were staged before it existed."""
        return _stored(column).value(_default_text(column))

    def _with_data(self, table: Table) -> Table:
        table = replace(table, data=self._journal.next_number("data"))
        self._data.create(table.physical, [_stored(column) for column in table.columns])
        return table

    def _keep(self, table: Table, old: Table | None, changes: Iterable[str] = ()) -> Table:
        """Make a table what the journal and the queries know, instead of `old`.

        Raises `duckdb.Error` when rows cannot be changed so; everything is as before then.
        """
        statements = [*changes, _view_sql(table)]
        if old is not None and old.name != table.name:
            statements.append(f"DROP VIEW IF EXISTS {_view(old)}")
        with self._journal.together():
            self._journal.put("table", table.id, to_json(table))
            self._data.execute(*statements)
            self.on_change(table)
        if old is not None:
            self._tables.pop((old.database, old.name))
        self._tables[table.database, table.name] = table
        self.generation += 1
        return table

    def _fitting(self, table: Table) -> Iterator[str]:
        """Statements that give the stored rows the columns of the table."""
        present = self._data.columns(table.physical)
        for column in table.columns:
            name, kind = quoted(column.staged), _stored(column).kind
            if column.staged not in present:
                yield f"ALTER TABLE {_rows(table)} ADD COLUMN {name} {kind} DEFAULT {self.default(column)}"
            elif present[column.staged] != kind:
                yield f"ALTER TABLE {_rows(table)} ALTER {name} TYPE {kind}"

    def _drop_columns(self, table: Table) -> None:
        gone = set(self._data.columns(table.physical)) - {column.staged for column in table.columns}
        for name in sorted(gone):
            self._data.execute(f"ALTER TABLE {_rows(table)} DROP COLUMN {quoted(name)}")

    def _repair(self) -> None:
        """After a start: every view and column as the journal says."""
        self._data.execute(*(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}" for name in self._databases))
        for table in self._tables.values():
            self._data.execute(*self._fitting(table), _view_sql(table))
            self._drop_columns(table)


def _stored(column: Column) -> StoredColumn:
    return StoredColumn(column.staged, column.type.duckdb, None)


def _default_text(column: Column) -> str | None:
    return str(datetime.now().replace(microsecond=0)) if column.default == NOW else column.default


def _rows(table: Table) -> str:
    return f"main.{quoted(table.physical)}"


def _view(table: Table) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _view_sql(table: Table) -> str:
    items = ", ".join(f"{quoted(column.staged)} AS {quoted(column.name)}" for column in table.columns)
    return f"CREATE OR REPLACE VIEW {_view(table)} AS SELECT {items} FROM {_rows(table)}"


def _unlike(name: str, others: Iterable[str], what: str) -> None:
    if any(name != other and name.lower() == other.lower() for other in others):
        raise analyzing(f"the stand-in cannot keep {what} names that differ only in case: '{name}'")
