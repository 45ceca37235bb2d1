"""The driver's side of schema changes in a sink: read tables, carry out an operation, look for rows.

Planning, order, repetition and the record of what is done are the core's. A SQL system executes statements
(`SchemaSession`), a system with an API has a method for each operation (`cdc.evolution.api_sink.ApiSession`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic

from cdc.errors import ChangeRefused
from cdc.evolution.dialect import Dialect
from cdc.evolution.operations import Operation
from cdc.evolution.rules import TableRules
from cdc.evolution.steps import Check, Statement
from cdc.evolution.table import Layout, T
from cdc.schema import TableId


class TableSession(ABC, Generic[T]):
    """An open session of a sink, for schema changes. Driver; one thread at a time."""

    @property
    @abstractmethod
    def rules(self) -> TableRules[T]:
        """The rules of the connected system for its tables."""

    @abstractmethod
    def read(self, tables: Sequence[TableId]) -> Layout[T]:
        """The existing ones of these tables, and the existing databases. Raises SinkError."""

    @abstractmethod
    def carry_out(self, operation: Operation) -> Iterator[None]:
        """Carry out an operation: one item after each step of it that shows in the system, jobs included.

        Runs once, or again from the start of its change after a crash: planning reads the tables again then. Raises
        ChangeRefused when the system refuses, SinkUnavailable when the answer is lost or a job takes too long.
        """

    @abstractmethod
    def texts(self, operation: Operation) -> Sequence[str]:
        """The operation as `cdc plan` shows it. Does nothing."""

    @abstractmethod
    def has_rows(self, check: Check) -> bool:
        """Whether a table has some of the rows that stand against a change. Raises SinkError."""

    def holds_rows(self, table: TableId) -> bool:
        """Whether a table that is there has rows; False where it cannot be asked. Raises SinkError."""
        return False

    def identity(self, table: TableId) -> str | None:
        """The identity of a table, the same under another name, and different from a later table of its name.

        None where the shadow table's name is free once it took its table's place. Raises SinkError.
        """
        return None

    def missing(self, tables: Sequence[TableId]) -> list[TableId]:
        """The tables of these that do not exist, or are hidden from the user. Raises SinkError."""
        there = self.read(tables)
        return [table for table in tables if there.get(table) is None]

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Wait for what was begun before and does not show yet: jobs of an earlier run, loads of earlier batches.

        Before tables are read. Raises SinkUnavailable when that takes too long.
        """

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: its body is carried out whole or not at all, where the rules say `transactional`."""
        yield


class SchemaSession(TableSession[T]):
    """A session of a SQL system, whose dialect prints the operations. Driver; one thread at a time."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect[T]:
        """The dialect of the system that is connected."""

    @abstractmethod
    def execute(self, statement: Statement) -> None:
        """Carry out one statement; returns when the table is so, jobs that it started included.

        Runs once, or again from the start of its change after a crash. Raises ChangeRefused when the system refuses,
        SinkUnavailable when the answer is lost or a job takes too long.
        """

    @abstractmethod
    def finds(self, query: str) -> bool:
        """Whether a query finds a row. Raises SinkError."""

    @property
    def rules(self) -> Dialect[T]:
        """The dialect's."""
        return self.dialect

    def carry_out(self, operation: Operation) -> Iterator[None]:
        """Statement by statement; what those before a refused one made for it alone is taken away again."""
        for statement in self.dialect.statements(operation):
            try:
                self.execute(statement)
            except ChangeRefused:
                if statement.undo and not self.dialect.transactional:
                    with suppress(ChangeRefused):  # who may not change the table may not drop its copy either
                        self.execute(Statement(statement.table, statement.undo))
                raise
            yield

    def texts(self, operation: Operation) -> Sequence[str]:
        """Its statements."""
        return [statement.sql for statement in self.dialect.statements(operation)]

    def has_rows(self, check: Check) -> bool:
        """A query that finds one."""
        return self.finds(self.dialect.finding(check.table, check.column, check.rows))

    def holds_rows(self, table: TableId) -> bool:
        """A query that finds one."""
        return self.finds(self.dialect.any_row(table))
