"""A sink that is a SQL-like system: it says how its statements are spelled, the core plans and carries out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Generic

from cdc.evolution.changes import SchemaChanges
from cdc.evolution.planner import plan, tables_of
from cdc.evolution.renames import in_turn
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import T
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.sink import Sink
from cdc.source import Context


class SqlSink(Sink, Generic[T]):
    """Schema changes and `cdc plan` for a sink that can open a `SchemaSession`. Picklable, as every sink."""

    shadows: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self._store = context.store

    @abstractmethod
    def schema_session(self, *, write: bool) -> AbstractContextManager[SchemaSession[T]]:
        """A session for schema changes, or only to look. Driver. Raises SinkError."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are. Driver."""
        SchemaChanges(lambda: self.schema_session(write=True), self._store).apply(batch, changes)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        with self.schema_session(write=False) as session:
            actual = session.read([table]).get(table)
            return None if actual is None else session.dialect.schema(actual)

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """Those of these tables that do not exist. Driver."""
        with self.schema_session(write=False) as session:
            return session.missing(tables)

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements `apply` would run now. Driver."""
        with self.schema_session(write=False) as session:
            dialect, changes = session.dialect, in_turn(changes)
            planned = plan(dialect, session.read(tables_of(dialect, changes)), changes)
        return [step.sql for change in planned for step in change.steps if isinstance(step, Statement)]
