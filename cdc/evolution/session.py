"""Sessions for schema changes in a sink: read tables, execute operations, look for rows. Driver.

The core does the planning, ordering, repetition and journaling. A SQL system executes statements (`SchemaSession`), a
system with an API has one method per operation (`cdc.evolution.api_sink.ApiSession`).
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
from cdc.evolution.steps import Check, KeyCheck, Statement
from cdc.evolution.table import Layout, T
from cdc.schema import TableId


class TableSession(ABC, Generic[T]):
    """An open session of a sink, for schema changes. Driver; one thread at a time."""

    @property
    @abstractmethod
    def rules(self) -> TableRules[T]:
        """The table rules of the connected system."""

    @abstractmethod
    def read(self, tables: Sequence[TableId]) -> Layout[T]:
        """Read those of the tables that exist, and the existing databases. Raises SinkError."""

    @abstractmethod
    def carry_out(self, operation: Operation) -> Iterator[None]:
        """Execute an operation and yield after each step that is visible in the system, including finished jobs.

        After a crash its change is planned again from the tables and executed from its start. Raises ChangeRefused when
        the system refuses, SinkUnavailable when the response is lost or a job takes too long.
        """

    @abstractmethod
    def texts(self, operation: Operation) -> Sequence[str]:
        """Return the operation as `cdc plan` shows it. Executes nothing."""

    @abstractmethod
    def has_rows(self, check: Check | KeyCheck) -> bool:
        """Whether a table has rows that prevent a change. Raises SinkError."""

    def holds_rows(self, table: TableId) -> bool:
        """Whether an existing table has rows; False where it cannot be queried. Raises SinkError."""
        return False

    def identity(self, table: TableId) -> str | None:
        """Return the identity of a table, which a rename keeps and a new table of the same name does not have.

        None where the shadow table's name is unused after it replaced its table. Raises SinkError.
        """
        return None

    def missing(self, tables: Sequence[TableId]) -> list[TableId]:
        """Return those of the tables that do not exist or are hidden from the user. Raises SinkError."""
        layout = self.read(tables)
        return [table for table in tables if layout.get(table) is None]

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Wait for earlier work that is not visible yet: jobs of an earlier run, loads of earlier batches.

        Called before tables are read. Raises SinkUnavailable when that takes too long.
        """

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the body in a transaction, where the rules say `transactional`."""
        yield


class SchemaSession(TableSession[T]):
    """A session of a SQL system, whose dialect prints the operations. Driver; one thread at a time."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect[T]:
        """The dialect of the connected system."""

    @abstractmethod
    def execute(self, statement: Statement) -> None:
        """Execute one statement and wait for the jobs that it starts.

        After a crash its change is executed again from the start. Raises ChangeRefused when the system refuses,
        SinkUnavailable when the response is lost or a job takes too long.
        """

    @abstractmethod
    def finds(self, query: str) -> bool:
        """Whether a query finds a row. Raises SinkError."""

    @property
    def rules(self) -> Dialect[T]:
        """The dialect."""
        return self.dialect

    def carry_out(self, operation: Operation) -> Iterator[None]:
        """Execute the statements one by one; when one is refused, undo what the earlier ones did only for it."""
        for statement in self.dialect.statements(operation):
            try:
                self.execute(statement)
            except ChangeRefused:
                if statement.undo and not self.dialect.transactional:
                    with suppress(ChangeRefused):  # there may be no right to drop the copy either
                        self.execute(Statement(statement.table, statement.undo))
                raise
            yield

    def texts(self, operation: Operation) -> Sequence[str]:
        """Return the statements."""
        return [statement.sql for statement in self.dialect.statements(operation)]

    def has_rows(self, check: Check | KeyCheck) -> bool:
        """Whether a query finds such a row."""
        if isinstance(check, KeyCheck):
            return self.finds(self.dialect.shared_key(check.table, check.key))
        return self.finds(self.dialect.finding(check.table, check.column, check.rows))

    def holds_rows(self, table: TableId) -> bool:
        """Whether a query finds a row."""
        return self.finds(self.dialect.any_row(table))
