"""What a SQL-like sink does on the driver for schema changes: read tables, run a statement, run a query.

A sink gives a session that knows its dialect; planning, order, repetition and the record of what is done are the
core's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic

from cdc.evolution.dialect import Dialect
from cdc.evolution.steps import Statement
from cdc.evolution.table import Layout, T
from cdc.schema import TableId


class SchemaSession(ABC, Generic[T]):
    """An open session of a sink, for schema changes. Driver; one thread at a time."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect[T]:
        """The dialect of the system that is connected."""

    @abstractmethod
    def read(self, tables: Sequence[TableId]) -> Layout[T]:
        """Those of these tables that exist, and which databases do. Raises SinkError."""

    @abstractmethod
    def execute(self, statement: Statement) -> None:
        """Carry out one statement; returns when the table is so, jobs that it started included.

        Runs once, or again from the start of its change after a crash. Raises ChangeRefused when the system refuses,
        SinkUnavailable when the answer is lost or a job takes too long.
        """

    @abstractmethod
    def finds(self, query: str) -> bool:
        """Whether a query finds a row. Raises SinkError."""

    def identity(self, table: TableId) -> str | None:
        """What tells a table, also under another name, from one that has its name at another time.

        None where the copy's name is free once `take_place` of the dialect is carried out. Raises SinkError.
        """
        return None

    def missing(self, tables: Sequence[TableId]) -> list[TableId]:
        """Those of these tables that do not exist, or are hidden from the user. Raises SinkError."""
        there = self.read(tables)
        return [table for table in tables if there.get(table) is None]

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Wait for what was begun before and does not show yet: jobs of an earlier run, loads of earlier batches.

        Before tables are read. Raises SinkUnavailable when that takes too long.
        """

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is executed inside is done whole or not at all, where the dialect is transactional."""
        yield
