"""Source table to sink table, and the guard that no two source tables meet in one sink table. Driver and executors."""

from __future__ import annotations

from collections.abc import Iterable

from cdc.plan import check_routes
from cdc.route import route
from cdc.schema import CreateTable, DropTable, RenameTable, SchemaChange, TableId
from cdc.spec.model import PipelineSpec, RouteRule


class RouteTable:
    """`cdc.route.route` with the pipeline's rules; picklable, answers are remembered."""

    def __init__(self, rules: Iterable[RouteRule]) -> None:
        self._rules = tuple(rules)
        self._known: dict[TableId, TableId] = {}

    def __call__(self, table: TableId) -> TableId:
        """The sink table of a source table."""
        if table not in self._known:
            self._known[table] = route(table, self._rules)
        return self._known[table]


class RouteGuard:
    """Refuses a change after which two captured tables would share a sink table. Driver.

    It knows the tables from the changes alone, each of which it is told in log order: what the source has today may be
    the result of changes that are still to come.
    """

    def __init__(self, spec: PipelineSpec) -> None:
        self._spec = spec
        self._tables: set[TableId] = set()

    def check(self, changes: Iterable[SchemaChange]) -> None:
        """Take over tables that come and go. Raises SpecError before anything was applied; repeatable."""
        tables = set(self._tables)
        for change in changes:
            if isinstance(change, CreateTable):
                tables.add(change.table)
            elif isinstance(change, DropTable):
                tables.discard(change.table)
            elif isinstance(change, RenameTable):
                tables.discard(change.table)
                tables.add(change.new_table)
        if tables != self._tables:
            check_routes(self._spec, sorted(tables))
            self._tables = tables
