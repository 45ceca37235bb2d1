"""The compiled routes, rules and policies of a pipeline: how rows and schema changes get to the sink tables."""

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
        policy: how schema changes of the source are applied to the sink.
        coercion: how values that do not fit a column are handled.
        rules: the transform rules, None if there are none.
        existing_rows: how rows that a sink table has before its first snapshot are handled.
    """

    routes: RouteTable = field(default_factory=RouteTable)
    policy: Policy = field(default_factory=lambda: Policy(Behavior.EVOLVE))
    coercion: Coercion = field(default_factory=Coercion)
    rules: Rules | None = None
    existing_rows: ExistingRows = ExistingRows.UPSERT

    def re_snapshots_all(self, source: Source, tables: Iterable[TableId]) -> bool:
        """Whether all source tables of a sink table are re-snapshotted when one of them is (docs/tables.md)."""
        return self.policy.mirrors and all(source.snapshots(table) is Snapshots.ALWAYS for table in tables)
