"""A sink with tables: it says what they can be and carries out operations, the core plans, orders and repeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Generic

from cdc.evolution.changes import SchemaChanges
from cdc.evolution.operations import Operation
from cdc.evolution.planner import plan, tables_of
from cdc.evolution.renames import in_turn
from cdc.evolution.session import TableSession
from cdc.evolution.table import T
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.sink import Sink
from cdc.source import Context


class TableSink(Sink, Generic[T]):
    """Schema changes and `cdc plan` for a sink that can open a `TableSession`. Picklable, as every sink."""

    shadows: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self._store = context.store

    @abstractmethod
    def schema_session(self, *, write: bool) -> AbstractContextManager[TableSession[T]]:
        """A session for schema changes, or only to look. Driver. Raises SinkError."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are. Driver."""
        SchemaChanges(lambda: self.schema_session(write=True), self._store).apply(batch, changes)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        with self.schema_session(write=False) as session:
            actual = session.read([table]).get(table)
            return None if actual is None else session.rules.schema(actual)

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table has rows. Driver."""
        with self.schema_session(write=False) as session:
            return session.read([table]).get(table) is not None and session.holds_rows(table)

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """The tables of these that do not exist. Driver."""
        with self.schema_session(write=False) as session:
            return session.missing(tables)

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements or operations that `apply` would carry out now. Driver."""
        with self.schema_session(write=False) as session:
            rules, changes = session.rules, in_turn(changes)
            planned = plan(rules, session.read(tables_of(rules, changes)), changes)
            steps = [step for change in planned for step in change.steps if isinstance(step, Operation)]
            return [text for step in steps for text in session.texts(step)]
