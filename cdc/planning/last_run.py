"""The last run of a pipeline, from its state directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc.schema import DataType, TableId, TableSchema
from cdc.state.decisions import CommitLog
from cdc.state.fingerprint import Fingerprint, Fingerprints
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.tables.pauses import PauseReader
from cdc.tables.states import Schemas

if TYPE_CHECKING:
    from cdc.state.directory import StateDir


@dataclass(frozen=True, slots=True)
class LastRun:
    """The decisions and settings of earlier runs; the default is that of a pipeline that has not run.

    Attributes:
        tables: the tables after the last decided batch; None before the first batch.
        fingerprint: settings of the last run; None when it stored none.
        paused: source tables that are paused, pending requests included.
    """

    tables: TableViews | None = None
    fingerprint: Fingerprint | None = None
    paused: frozenset[TableId] = field(default_factory=frozenset)

    @staticmethod
    def read(state: StateDir) -> LastRun:
        """Read the state directory. Raises StateError."""
        last = CommitLog(state.commits).last()
        tables = TableLog(state.store).at(last) if last >= 0 else None
        return LastRun(tables, Fingerprints(state.store).read(), PauseReader(state).tables().paused)

    @property
    def sink_tables(self) -> Schemas:
        """The sink's tables; none before the first batch."""
        return {} if self.tables is None else self.tables.sink

    @property
    def ruled_tables(self) -> Schemas:
        """The source tables' schemas after the rules; none before the first batch."""
        return {} if self.tables is None else self.tables.rules

    def changed_tables(self, tables: Schemas) -> list[TableId]:
        """Return the source tables whose columns differ now: a run will apply their changes from the log."""
        before = {} if self.tables is None else self.tables.source
        return [
            table
            for table, schema in sorted(tables.items())
            if table in before and _columns(before[table]) != _columns(schema)
        ]


def _columns(schema: TableSchema) -> list[tuple[str, DataType]]:
    return [(column.name, column.type) for column in schema.columns]
