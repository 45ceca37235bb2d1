"""Sink tables that were altered by hand since the pipeline last wrote to them. Queries the sink; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused
from cdc.evolution.merge import missing_columns
from cdc.schema import CreateTable, TableId
from cdc.tables.states import Schemas

if TYPE_CHECKING:
    from cdc.sink import Sink


@dataclass(frozen=True, slots=True)
class Altered:
    """A sink table that was altered by hand.

    Attributes:
        table: the sink table.
        lost: missing columns that the pipeline fills.
        new: columns that the pipeline does not know.
        refused: why rows can no longer be written, with what to do; empty when they can.
    """

    table: TableId
    lost: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    refused: str = ""

    @property
    def text(self) -> str:
        """The difference in words that follow the table's name."""
        parts = []
        if self.lost:
            names = ", ".join(self.lost)
            parts.append(f"{names} was dropped in the sink: it is added again, NULL in existing rows")
        if self.new:
            parts.append(f"{', '.join(self.new)} was added in the sink: it is left as it is, NULL in new rows")
        if self.refused:
            parts.append(f"a run would stop: {self.refused}")
        return "; ".join(parts)


def altered_tables(sink: Sink, known: Schemas) -> Sequence[Altered]:
    """Return the existing tables that differ from their known schema. Driver; queries the sink for each table.

    Missing tables are not included.
    """
    found = []
    for table, schema in sorted(known.items()):
        actual = sink.describe(table)
        if actual is None:
            continue
        lost, new = missing_columns(actual, schema), missing_columns(schema, actual)
        altered = Altered(table, lost, new, _refusal_reason(sink, CreateTable(table, schema)))
        if altered != Altered(table):
            found.append(altered)
    return found


def _refusal_reason(sink: Sink, change: CreateTable) -> str:
    try:
        sink.plan_text([change])
    except ChangeRefused as error:
        return str(error)
    return ""
