"""Operations of the transition table: one function for each name in `cells.OPERATIONS`. Pure; driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, behave
from cdc.route import Target
from cdc.schema import AddColumn, CreateShadow, CreateTable, DropShadow, RenameTable, SwapShadow, TableId, TruncateTable
from cdc.tables import events as on
from cdc.tables.sinks import with_shard
from cdc.tables.states import AWAITED, IN_SHADOW
from cdc.tables.step import Step
from cdc.tables.table_map import TableMap

Operation = Callable[[Step], None]


def begin_shadow(tables: TableMap, table: TableId, cause: TableId | None) -> None:
    """Create a shadow table, or recreate it; all source tables except the `cause` are re-snapshotted into it."""
    tables.sinks.plan(CreateShadow(table))
    if tables.now.shadows:
        for member in sorted(tables.members(table) - {cause}):
            tables.follow_ups.append(on.ShadowBegun(member, Target(table)))


def swap_if_complete(tables: TableMap, table: TableId) -> None:
    """Swap the shadow table in if it has the rows of every source table."""
    if tables.sinks.state(table).shadowed and not any(
        tables.state((member, table)) in AWAITED for member in tables.members(table)
    ):
        tables.sinks.plan(SwapShadow(table, tables.sinks.state(table).shadow))


def _create(step: Step) -> None:
    step.sinks.create(step.created, step.source, step.tables.members(step.table))


def _alter(step: Step) -> None:
    step.sinks.behave(step.change, step.source_schema)


def _widen(step: Step) -> None:
    added = ""
    if isinstance(step.event, on.TableChanged):
        _check_policy(step)
        if step.is_comment:
            return
        if reason := step.unmerged_part:
            step.sinks.add_notice(step.table, reason)
        added = step.change.column.name if isinstance(step.change, AddColumn) else ""
    if not isinstance(step.event, on.RouteAdded):
        _check_key(step)
    re_read_column = step.re_read_column if isinstance(step.event, on.TableChanged) else ""
    step.sinks.widen(step.table, step.schema, re_read_column, added)


def _check_key(step: Step) -> None:
    step.sinks.check_key(step.table, step.schema, step.source, step.tables.members(step.table))


def _check_policy(step: Step) -> None:
    if step.policy.behavior is Behavior.EXCEPTION and step.sink_schema is not None:
        behave(step.policy, step.change, step.sink_schema, step.source_schema)


def _create_shadow(step: Step) -> None:
    begin_shadow(step.tables, step.table, step.source)


def _create_new_shadow(step: Step) -> None:
    created = step.created
    step.sinks.plan(CreateShadow(step.table, created.schema, created.options, created.partition_keys))
    if not step.sinks.shadows:
        step.sinks.plan(SwapShadow(step.table, created.schema))  # the sink's table is recreated


def _drop_shadow(step: Step) -> None:
    step.sinks.plan(DropShadow(step.table))


def _leave_shadow(step: Step) -> None:
    if not step.sink.shadowed:
        return
    if not step.is_shared:
        _drop_shadow(step)
    elif step.state in IN_SHADOW:
        _create_shadow(step)


def _truncate(step: Step) -> None:
    step.sinks.behave(step.change, step.source_schema)


def _empty(step: Step) -> None:
    if isinstance(step.event, on.RouteAdded):
        existing = step.sink_schema
        assert existing is not None, "the sink table is there"
        step.sinks.plan(CreateTable(step.table, existing))  # the table was not maintained meanwhile
    by_source = isinstance(step.event, on.TableTruncated | on.TableDropped)
    step.sinks.plan(TruncateTable(step.table, copied=not by_source))


def _drop(step: Step) -> None:
    step.sinks.behave(step.change, None)


def _rename(step: Step) -> None:
    assert step.new is not None, "a renamed table goes somewhere"
    renamed = RenameTable(step.table, step.new.table)
    if step.policy.behavior is Behavior.EXCEPTION and step.sink_schema is not None:
        behave(step.policy, renamed, step.sink_schema, step.source_schema)
    step.sinks.plan(renamed)


def _create_renamed(step: Step) -> None:
    """Create the sink table of the new name, or adapt it and its shadow table to the renamed table."""
    assert step.new is not None, "a renamed table goes somewhere"
    tables, table = step.tables, step.new.table
    tables.merge(table, step.source)
    before, state = step.sinks.schemas.get(table), step.sinks.state(table)
    others = tables.members(table) - {step.source}
    step.sinks.create(CreateTable(table, with_shard(tables.sources[step.source], step.new)), step.new_source, others)
    if state.shadowed and (state.shadow is not None or step.sinks.schemas.get(table) != before):
        begin_shadow(tables, table, step.new_source)


def _nothing(step: Step) -> None:
    """No operation in the sink: the machine does it when it sets the states."""


def _remember_rows(step: Step) -> None:
    step.sinks.remember_rows(step.table, step.source)


def _stop(step: Step) -> None:
    raise _refusal(step)


def _refusal(step: Step) -> ChangeRefused:
    match step.event:
        case on.TableCreated():
            return step.tables.now.existing_rows.refusal(step.table, step.schema)
        case on.TableRenamed():
            return ChangeRefused(
                f"rename.table {step.source} to {step.new_source}: {step.rename_refusal}, so its rows cannot follow",
                where=str(step.notice_table),
                hint="route both names to one sink table; or write lenient, and re-snapshot it with cdc resync",
            )
        case on.TableChanged():
            how = "be other rows than those that come" if step.is_respelled else "have the values under the other names"
            return ChangeRefused(
                f"{step.change_text} of {step.source}: its rows that are there would {how}, and cannot be told from "
                "those of other tables",
                where=str(step.table),
                hint="write evolve, with a source that copies tables: all that go there are re-snapshotted; or route "
                "this table to another one",
            )
        case on.OperationRefused(reason=reason):
            return ChangeRefused(reason, where=str(step.table))
        case _:
            others = ", ".join(map(str, step.not_snapshotted)) or "all that go to it"
            remedy = f"take {others} in again, all are copied then; or leave" if step.policy.mirrors else "leave"
            return ChangeRefused(
                f"{step.source} is to be re-snapshotted, and its rows cannot be told from those of other tables",
                where=str(step.table),
                hint=f"several tables without a key go there: {remedy} this one out (tables.exclude), its rows stay",
            )


OPERATE: Mapping[str, Operation] = {
    "create": _create,
    "alter": _alter,
    "widen": _widen,
    "check key": _check_key,
    "check policy": _check_policy,
    "create shadow": _create_shadow,
    "create new shadow": _create_new_shadow,
    "drop shadow": _drop_shadow,
    "leave shadow": _leave_shadow,
    "truncate": _truncate,
    "empty": _empty,
    "drop": _drop,
    "rename": _rename,
    "rename pair": _nothing,
    "create renamed": _create_renamed,
    "remember rows": _remember_rows,
    "swap": _nothing,
    "stop": _stop,
}
"""The operations by name."""
