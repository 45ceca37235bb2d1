"""One event applied to one pair, as conditions and operations see it. Driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from cdc.evolution.behavior import Behavior, Policy, behave, described
from cdc.evolution.merge import find
from cdc.route import Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.tables import events as on
from cdc.tables.sinks import SinkMap, with_shard
from cdc.tables.states import Pair, SinkState, TableState
from cdc.tables.table_map import TableMap
from cdc.types.certain import respelled
from cdc.types.common import common_type


class Step:
    """An event applied to a pair.

    Args:
        schema: the source table's schema after the event; None if the table no longer exists.
        new: the target after a rename.
    """

    def __init__(
        self, tables: TableMap, event: on.Event, target: Target, schema: TableSchema | None, new: Target | None = None
    ) -> None:
        self.tables, self.event, self.target, self._schema, self.new = tables, event, target, schema, new
        self.source: TableId = event.table
        self.pair: Pair = event.table, target.table
        self.state: TableState = tables.state(self.pair)

    @property
    def sinks(self) -> SinkMap:
        """The sink tables after the events handled so far."""
        return self.tables.sinks

    @property
    def policy(self) -> Policy:
        """The pipeline's policy."""
        return self.tables.now.policy

    @property
    def table(self) -> TableId:
        """The sink table."""
        return self.target.table

    @property
    def sink_schema(self) -> TableSchema | None:
        """The sink table's current schema; None if it does not exist."""
        return self.sinks.schemas.get(self.table)

    @property
    def sink(self) -> SinkState:
        """The sink table's current state."""
        return self.sinks.state(self.table)

    @property
    def other_sources(self) -> set[TableId]:
        """The other source tables that feed the sink table."""
        return self.tables.members(self.table) - {self.source}

    @property
    def is_shared(self) -> bool:
        """Whether another source table feeds the sink table."""
        members = self.tables.members(self.table)
        return len(members) > (self.source in members)

    @cached_property
    def schema(self) -> TableSchema:
        """The source table's schema after the event, with the target's shard column. Raises ChangeRefused."""
        assert self._schema is not None, "the source table is there after the event"
        return with_shard(self._schema, self.target)

    @property
    def source_schema(self) -> TableSchema | None:
        """The source table's schema as `schema`; None if the table no longer exists."""
        return None if self._schema is None else self.schema

    @cached_property
    def new_source(self) -> TableId:
        """The source table's name after the event."""
        return self.event.new_table if isinstance(self.event, on.TableRenamed) else self.source

    @cached_property
    def change(self) -> SchemaChange:
        """The event as a change of the sink table."""
        match self.event:
            case on.TableChanged(change=AlterPrimaryKey(primary_key=key) as change):
                shard = self.target.shard_column
                return replace(change, table=self.table, primary_key=(*key, shard) if key and shard else key)
            case on.TableChanged(change=AlterColumnType() as change):
                return replace(change, table=self.table, copied=self.event.uncertain is not None)
            case on.TableChanged(change=change):
                return replace(change, table=self.table)
            case on.TableTruncated():
                return TruncateTable(self.table)
            case on.TableDropped() | on.TableRenamed():
                return DropTable(self.table)  # of the old name, if its table cannot be renamed
            case _:
                raise AssertionError(f"{self.event} is no change")

    @property
    def created(self) -> CreateTable:
        """The creation of the sink table for the current source table, with its options."""
        created = self.event.created if isinstance(self.event, on.TableCreated | on.SnapshotBegun) else None
        if created is None:
            return CreateTable(self.table, self.schema)
        return replace(created, table=self.table, schema=self.schema)

    @property
    def is_void_before(self) -> bool:
        """Whether the pair's first snapshot was void in an earlier batch."""
        pair = self.tables.pair(self.pair)
        return pair.ordered and pair.since < self.tables.now.batch

    @cached_property
    def is_carried_out(self) -> bool:
        """Whether the policy applies the event's change as a whole. Raises ChangeRefused."""
        assert self.sink_schema is not None, "the sink table is there"
        outcome = behave(self.policy, self.change, self.sink_schema, self.source_schema)
        return any(type(each) is type(self.change) for each in outcome.changes)

    @cached_property
    def is_respelled(self) -> bool:
        """Whether values that identify rows, unchanged in the source, are other ones in the sink after the event."""
        sink, event = self.sink_schema, self.event
        if sink is None or not isinstance(event, on.TableChanged) or not isinstance(event.change, AlterColumnType):
            return False
        change, known = event.change, find(sink, event.change.column.name)
        if change.old is None or known is None or (sink.primary_key and known.name not in sink.primary_key):
            return False
        if known.type == change.old.type and not self.sink.merged:
            return False  # it gets the new type
        applied = self.policy.behavior is not Behavior.IGNORE and self.policy.allows(change)
        stored = common_type(known.type, change.column.type) if applied else known.type
        # A sink that alters its column checks the values, unless a snapshot is to bring them again.
        unchecked = stored == known.type or event.uncertain is not None
        return unchecked and respelled(change.column.type, change.old.type, stored)

    @property
    def leaves_values(self) -> bool:
        """Whether rows of a merged table keep values that their source does not have any more, or get others."""
        return self.sink.merged and isinstance(self.event, on.TableChanged) and bool(self.unmerged_part)

    def grows(self, operation: Callable[[Step], None]) -> bool:
        """Whether an operation changes the columns or the key of the sink table."""
        before, sinks = self.sink_schema, self.tables.sinks
        self.tables.sinks = sinks.scratch()
        try:
            operation(self)
            after = self.sink_schema
        finally:
            self.tables.sinks = sinks
        return before is None or after is None or self.sink.shadow is not None or _shape(before) != _shape(after)

    # words

    @property
    def change_text(self) -> str:
        """A short description of the event."""
        match self.event:
            case on.TableChanged() | on.TableTruncated() | on.TableDropped():
                return described(self.change)
            case on.OperationRefused():
                return "change.refused"
            case on.SnapshotBegun():
                return "snapshot.begun"
            case _:
                return type(self.event).__name__

    @property
    def notice_table(self) -> TableId:
        """The table that a notice is about."""
        return self.table if self.new is None else self.new.table

    @property
    def notice_values(self) -> dict[str, str]:
        """The values for the placeholders of notices."""
        new, where, reason, why = "", "", "", ""
        match self.event:
            case on.TableRenamed(new_table=new_table):
                new, reason = str(new_table), self.rename_refusal or "renames are left out"
                where = f" in {self.table}" if self.new is not None and self.new.table != self.table else ""
            case on.CaptureEnded(why=reason) | on.OperationRefused(reason=reason):
                pass
            case on.TableChanged(uncertain=on.Uncertain(reason=reason)):
                pass
            case on.SnapshotBegun():
                why = self.partial_reason
            case _:
                pass
        return {
            "source": str(self.source), "change": self.change_text, "new": new, "where": where, "reason": reason,
            "why": why,
        }  # fmt: skip

    @property
    def not_snapshotted(self) -> list[TableId]:
        """The other source tables that cannot be re-snapshotted now, because of their source or a pause."""
        snapshots, state = self.tables.now.snapshots, self.tables.state
        return sorted(
            other
            for other in self.other_sources
            if not snapshots(other) or state((other, self.table)) is TableState.PAUSED
        )

    @property
    def partial_reason(self) -> str:
        """The part of a notice that says why not all source tables are re-snapshotted."""
        unshadowed = self.not_snapshotted if self.policy.mirrors and self.tables.now.shadows else []
        return f", as {unshadowed[0]} cannot be copied with it" if unshadowed else ""

    @property
    def rename_refusal(self) -> str:
        """The reason why the sink table of a renamed table cannot be renamed; empty if it can."""
        assert self.new is not None, "a renamed table goes somewhere"
        if self.sink_schema is None:
            return "there is no table to rename"
        if self.target.shard_column is not None or self.new.shard_column is not None:
            return "they hold the old name in the shard column"
        if self.sink.merged:
            return f"other tables go to {self.table} too"
        return f"{self.new.table} is there already" if self.new.table in self.sinks.schemas else ""

    @property
    def arriving(self) -> Step:
        """The renamed table at its new sink table."""
        assert self.new is not None, "a renamed table goes somewhere"
        return Step(self.tables, self.event, self.new, self._schema)

    @property
    def moves_rows(self) -> bool:
        """Whether a renamed table's rows are among those of other tables before or after, or have a shard column."""
        assert self.new is not None, "a renamed table goes somewhere"
        sharded = self.target.shard_column is not None or self.new.shard_column is not None
        return sharded or self.sink.merged or self.arriving.is_shared

    @property
    def unmerged_part(self) -> str:
        """A description of the part of a change that a merged sink table does not apply; empty for none."""
        whose, sink = f"{self.change_text} of {self.source}", self.sink_schema
        match self.change:
            case RenameColumn(old_name=old_name, new_name=new_name) if old_name.casefold() != new_name.casefold():
                kept = _unchanged_text(f"{old_name} and {new_name}")
                return f"{whose}: {old_name} stays for other tables, {new_name} is a column of its own, {kept}"
            case DropColumn(name=name):
                return f"{whose}: {name} stays for other tables, {_unchanged_text(name)}"
            case AddColumn(column=column) if column.default is not None:
                known = sink is not None and find(sink, column.name) is not None
                rows = (
                    f"its rows that are there keep what they have, not the default {column.default!r}"
                    if known
                    else f"rows of the other tables get its default {column.default!r} too"
                )
                return f"{whose}: {rows}"
            case _:
                return ""

    @property
    def is_comment(self) -> bool:
        """Whether only the table's comment changes."""
        return isinstance(self.event, on.TableChanged) and isinstance(self.event.change, AlterTableComment)

    @property
    def re_read_column(self) -> str:
        """The column whose values a snapshot reads again because of the change; empty for none."""
        change = self.change
        return change.column.name if isinstance(change, AlterColumnType) and change.copied else ""


def _shape(schema: TableSchema) -> tuple[object, ...]:
    return schema.columns, schema.own_types, schema.primary_key


def _unchanged_text(columns: str) -> str:
    """The part of a notice about rows whose values in some columns differ from the source's."""
    return f"rows that are there keep what they have in {columns} until they are written again"
