"""Copies of sink tables: which source tables have a part in one, how far each is, and when it is whole. Pure; driver.

A sink table that one source table goes to is copied with that one. Of one that several go to, all are: rows that are
gone from one of them could not be told from the others' otherwise. The first one that is copied anew begins it, the
source is asked for the others, and the table beside takes the place of the old one when all are whole.

| part of a source table | its rows | ends with |
|---|---|---|
| wanted: the source is asked for it | go to the table | its `CreateShadow` |
| begun | come twice, for the table and for the copy | its `SwapShadow` |
| whole | go to both | the others being whole too |

What makes a part wrong that was copied already (its table is copied or altered once more, truncated, dropped) begins
the whole copy anew.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc.evolution.behavior import Policy
from cdc.flow.sink_schemas import Part
from cdc.flow.sink_tables import Sides, SinkTables
from cdc.route import RouteTable
from cdc.schema import (
    CreateShadow,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.tables.entry import Pair

JOINED = "the table of the sink that it goes to is copied anew, or was altered meanwhile"
"""Why a table is copied anew."""


class Together(SinkTables):
    """See `SinkTables`; tables are the sink's, unless they are called sources."""

    def __init__(
        self, route: RouteTable, policy: Policy, before: Sides, copies: Callable[[TableId], bool] | None = None
    ) -> None:
        super().__init__(route, policy, before, copies)
        self.renamed: set[TableId] = set()
        self._open = {source for source, _ in before.marks.waiting}
        self._open |= {source for (source, _), part in before.marks.together.items() if part is Part.WANTED}

    @property
    def wanted(self) -> list[TableId]:
        """Source tables that the source has not been asked for yet."""
        return sorted({source for (source, _), part in self.together.items() if part is Part.WANTED} - self._open)

    def _answered(self, source: TableId) -> None:
        """The copy that the source was asked for has begun."""
        self._open.discard(source)

    def _is_copied(self, table: TableId) -> bool:
        return any(sink == table for _, sink in self.together)

    def _copied_together(self, source: TableId, table: TableId) -> bool:
        """Whether all of a merged table are copied when `source` is."""
        if (source, table) in self.together:
            return True
        return self._policy.mirrors and self._copies is not None and not self._not_copied(source, table)

    def _not_copied(self, source: TableId, table: TableId) -> list[TableId]:
        """Those of the other source tables of a table that the source does not copy, or that are paused."""
        others = self._members.get(table, set()) - {source}
        paused = {source for source, sink in self.paused if sink == table}
        return sorted(
            other for other in others if other in paused or (self._copies is not None and not self._copies(other))
        )

    def _begin_alone(self, source: TableId, change: CreateShadow) -> None:
        """The copy of a sink table that one source table goes to."""
        self._emit(change)
        if self._copies is not None:
            self._take_part((source, change.table), Part.BEGUN)

    def _follow_copy(self, source: TableId, table: TableId, before: TableSchema | None, part: Part) -> None:
        """A source table has come, or a change of one was carried out; a copy may be under way. `before`: as it was."""
        if not self._is_copied(table):
            return
        if self.sinks.get(table) != before:
            self._copy_all(table, source, part)
        elif (source, table) not in self.together:
            self._take_part((source, table), part)

    def _copy_all(self, table: TableId, source: TableId | None, part: Part | None) -> None:
        """A copy begins, anew where one is under way. `source` has this part in it; None: no part."""
        self._emit(CreateShadow(table))
        for member in sorted(self._members.get(table, set()) - {source}):
            self._take_part((member, table), Part.WANTED)
        if source is not None:
            self._take_part((source, table), part)
        self._finish(table)

    def copy_again(self, table: TableId) -> None:
        """What is beside a table is not what it has to be: a copy that is under way begins anew."""
        if self._is_copied(table):
            self._copy_all(table, None, None)

    def _take_part(self, pair: Pair, part: Part | None) -> None:
        self.over.discard(pair)
        if part is None:
            self.together.pop(pair, None)
        else:
            self.together[pair] = part

    def _no_part(self, source: TableId, table: TableId) -> None:
        """A source table has nothing to do any more with a copy that is perhaps under way."""
        part = self.together.get((source, table))
        if part is None:
            return
        self._take_part((source, table), None)
        if not self._is_copied(table):
            self._emit(DropShadow(table))
        elif part is Part.WANTED:
            self._finish(table)
        else:
            self._copy_all(table, source, None)

    def _finish(self, table: TableId) -> None:
        parts = {pair: part for pair, part in self.together.items() if pair[1] == table}
        if parts and all(part is Part.WHOLE for part in parts.values()):
            self._emit(SwapShadow(table))
            for pair in parts:
                del self.together[pair]
            self._leaves_nothing(table)

    def _leaves_nothing(self, table: TableId) -> None:
        self.left = {pair for pair in self.left if pair[1] != table}

    def _comes_back(self, source: TableId, table: TableId, there: TableSchema | None) -> None:
        """A source table has come; rows of an earlier one of its name may be in the table. `there`: as it was."""
        left = (source, table) in self.left and not self._is_copied(table)  # a copy has no rows of the earlier one
        if left and table in self.merged and self._copied_together(source, table):
            self._copy_all(table, source, Part.WHOLE)
        else:
            self._follow_copy(source, table, there, Part.WHOLE)

    def _emit(self, change: SchemaChange) -> None:
        super()._emit(change)
        if isinstance(change, TruncateTable | DropTable):
            self._leaves_nothing(change.table)
        if isinstance(change, TruncateTable | DropTable | RenameTable):  # with them goes what is beside
            for pair in [pair for pair in self.together if pair[1] == change.table]:
                self._take_part(pair, None)

    def settle(self) -> None:
        """Source tables that are not captured any more are not waited for."""
        for source, table in sorted(self.together):
            others = self._members.get(table, set()) - {source}
            if self._copies is not None and not self._copies(source) and any(map(self._copies, others)):
                self._no_part(source, table)
