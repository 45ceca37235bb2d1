"""The way of rows and schema changes from source tables to sink tables, compiled from a pipeline file once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc.evolution.behavior import Behavior, Policy
from cdc.route import RouteTable
from cdc.schema import TableId
from cdc.sink_columns import Coercion
from cdc.source import Snapshots, Source
from cdc.tables.table_map import ExistingRows

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


@dataclass(frozen=True, slots=True)
class Middle:
    """Rules, routes and policies between source and sink. Picklable: it travels to the executors.

    By default sink tables mirror those of the source, by name.

    Attributes:
        routes: source tables to sink tables.
        policy: what a schema change of the source does in the sink.
        coercion: what becomes of values that do not fit a column.
        rules: the transform rules, None without any.
        existing_rows: what becomes of rows that a sink table has before its first snapshot.
    """

    routes: RouteTable = field(default_factory=RouteTable)
    policy: Policy = field(default_factory=lambda: Policy(Behavior.EVOLVE))
    coercion: Coercion = field(default_factory=Coercion)
    rules: Rules | None = None
    existing_rows: ExistingRows = ExistingRows.UPSERT

    def snapshots_all_again(self, source: Source, tables: Iterable[TableId]) -> bool:
        """Whether all source tables of a sink table are snapshotted again when one of them is (docs/tables.md)."""
        return self.policy.mirrors and all(source.snapshots(table) is Snapshots.ALWAYS for table in tables)
