"""Applies schema changes with a lake's catalog: the part shared by lakes. Driver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from cdc.evolution import operations as op
from cdc.evolution.api_sink import ApiSession
from cdc.evolution.table import Layout
from cdc.schema import TableId
from connectors.shared.lake.rules import PartitionedTable


class LakeSession(ApiSession[str]):
    """A session with a catalog."""

    @abstractmethod
    def _databases(self) -> Sequence[str]:
        """Return the databases of the catalog."""

    @abstractmethod
    def _planned(self, table: TableId) -> PartitionedTable | None:
        """Return the table with its newest schema, None when there is none."""

    @abstractmethod
    def _guard_change(self, table: TableId) -> AbstractContextManager[None]:
        """Convert refusals of the catalog to a refusal of the table's change."""

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        """Read each table once."""
        databases = self._databases()
        there = (self._planned(table) for table in dict.fromkeys(tables) if table.database in databases)
        return Layout([table for table in there if table is not None], databases)

    def carry_out(self, operation: op.Operation) -> Iterator[None]:
        """Apply the operation; a refusal of the catalog is one of the change."""
        with self._guard_change(operation.table):
            yield from super().carry_out(operation)

    def texts(self, operation: op.Operation) -> Sequence[str]:
        """Describe the operation; for a new table with its partitions and properties."""
        text = op.text_of(operation)
        if isinstance(operation, op.CreateTableOp) and isinstance(operation.new, PartitionedTable):
            table = operation.new
            text += f" partitioned by {', '.join(map(str, table.partition))}" if table.partition else ""
            properties = ", ".join(f"{name}={value}" for name, value in sorted(table.properties.items()))
            text += f" with ({properties})" if properties else ""
        return [text]
