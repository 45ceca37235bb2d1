"""Applies the transition table to the events of a batch. Pure; driver.

tables before the batch --events in order--> tables after it, operations for the sink, notices
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from cdc.errors import EditRefused, EngineError
from cdc.events import advance_schemas
from cdc.evolution.apply import apply_changes
from cdc.evolution.merge import find, fits_exactly
from cdc.route import RouteTable, Target
from cdc.schema import (
    AlterColumnType,
    AlterPrimaryKey,
    CreateTable,
    DropShadow,
    RenameTable,
    SchemaChange,
    SourceStatement,
    TableId,
    TableSchema,
)
from cdc.tables import events as on
from cdc.tables.cells import AS_REQUESTED, CARRIED_OUT, NOTICES, Case, Impossible
from cdc.tables.conditions import holds
from cdc.tables.operations import OPERATE, begin_shadow, swap_if_complete
from cdc.tables.sinks import Notice, with_shard
from cdc.tables.states import ABSENT, NO_MEMBER, OPEN_ORDERS, SNAPSHOTTED, Pair, PairState, Tables, TableState
from cdc.tables.step import Step
from cdc.tables.table_map import NO_LEFTOVERS, Circumstances, Leftovers, TableMap
from cdc.tables.transitions import TRANSITIONS

MOVED = "its rows go to another table of the sink"
JOINED = "the table of the sink that it goes to is re-snapshotted, or was altered meanwhile"
RESUMED = "it was paused"
RENAMED = "it was renamed, and its rows could not follow it to the table of the sink that it goes to"
UNFIT = "columns were left out of its table, which schema.change.behavior lets be no more"


@dataclass(frozen=True)
class BatchOutcome:
    """The outcome of a batch's events.

    Attributes:
        operations: for the sink, in order.
        after: the tables after them.
        notices: for the user, in order.
    """

    operations: tuple[SchemaChange, ...]
    after: Tables
    notices: tuple[Notice, ...]

    @property
    def expected(self) -> tuple[CreateTable, ...]:
        """Tables that have to exist, as the pipeline does not create them, with their columns after the operations."""
        found = []
        for notice in self.notices:
            last = self.after.sinks.get(notice.table)
            if notice.expected is not None and last is not None:
                columns = tuple(column for column in notice.expected.columns if find(last, column.name) is not None)
                found.append(CreateTable(notice.table, TableSchema(columns)))
        return tuple(found)


_NOT_SNAPSHOTTED = NO_MEMBER | {TableState.PAUSED, TableState.MISSING}


class Machine:
    """Handles the events of one batch, one after another. `tables` are the tables after the events so far."""

    def __init__(self, now: Circumstances, before: Tables) -> None:
        self.tables = TableMap(now, before)
        self._routes = before.routes
        self._coming: frozenset[Pair] = frozenset()
        """Pairs of edited routes that are not added yet."""

    def handle(self, event: on.Event) -> None:
        """Handle one event. Raises EngineError for an impossible one, ChangeRefused if the run has to stop."""
        if not isinstance(event, on.ShadowBegun):
            self.tables.sinks.statement = _statement(event)
        match event:
            case on.TableRenamed():
                self._rename(event)
            case on.RouteAdded() | on.RouteRemoved() | on.RowsUnfit() | on.OperationRefused() | on.ShadowBegun():
                self._step(event, event.target, self.tables.sources.get(event.table))
            case _:
                self._handle_source_event(event)

    def apply_edits(self, edits: Iterable[on.Event]) -> None:
        """Handle the differences between the current pipeline file and the previous one: `edits`, then the routes.

        A table that is routed elsewhere comes there as the edited rules make it. Raises as `handle`, EditRefused.
        """
        moves = self._moves()
        self._coming = frozenset((move.table, move.target.table) for move in moves if isinstance(move, on.RouteAdded))
        for edit in edits:
            self.handle(edit)
        self._coming = frozenset()
        for move in moves:
            self.handle(move)

    def _moves(self) -> list[on.RouteAdded | on.RouteRemoved]:
        """The differences between the current routes and the previous ones. Raises EditRefused."""
        moves: list[on.RouteAdded | on.RouteRemoved] = []
        if self._routes is None or self._routes == self.tables.now.route.to_json():
            return moves
        before = RouteTable.from_json(self._routes)
        for source in sorted(self.tables.sources):
            old, new = (
                {target.table: target for target in each.targets(source)} for each in (before, self.tables.now.route)
            )
            for table, target in new.items():
                if table not in old:
                    moves.append(on.RouteAdded(source, target))
                elif target != old[table]:
                    raise shard_column_moved(source, old[table], target)
            moves += [on.RouteRemoved(source, old[table]) for table in sorted(old.keys() - new.keys())]
        return moves

    def restore(self, left: Leftovers) -> None:
        """Give sink tables the form again that they had before earlier tries of the batch."""
        sinks, known = self.tables.sinks, self.tables.sinks.schemas
        for table in filter(known.__contains__, left.rekeyed):
            sinks.plan(AlterPrimaryKey(table, known[table].primary_key))
        for table in filter(known.__contains__, left.lacking):
            sinks.plan(CreateTable(table, known[table]))
        for table in filter(known.__contains__, left.narrow):
            for column in known[table].columns:
                sinks.plan(AlterColumnType(table, column, column, keeps=True))
        for table in left.shadows:
            if sinks.state(table).shadowed:
                begin_shadow(self.tables, table, None)
                self._handle_induced()

    def drop_stale_shadows(self, left: Leftovers) -> None:
        """Drop the shadow tables that earlier tries of the batch have created, unless this try has them too."""
        sinks = self.tables.sinks
        for table in left.shadows:
            if sinks.shadows and not sinks.state(table).shadowed:
                sinks.plan(DropShadow(table))

    def outcome(self) -> BatchOutcome:
        """The outcome of the events so far."""
        sinks = self.tables.sinks
        return BatchOutcome(sinks.operations, self.tables.tables(), tuple(sinks.notices))

    # events

    def _handle_source_event(self, event: Any) -> None:
        source, before = event.table, self.tables.sources.get(event.table)
        outdated = {} if before is None else {source: before}
        advance_schemas(outdated, event)
        if isinstance(event, on.TableCreated):
            for _, table in self.tables.pairs_of(source):
                self.tables.merge(table, source)
        schema = before if isinstance(event, on.CaptureEnded) else outdated.get(source)
        for target in self.tables.now.route.targets(source):
            if (source, target.table) not in self._coming:
                self._step(event, target, schema)
        self.tables.sources.pop(source, None)
        self.tables.sources |= outdated

    def _rename(self, event: on.TableRenamed) -> None:
        route, schema = self.tables.now.route, self.tables.sources.get(event.table)
        self.tables.renames = self.tables.renames[1:]
        for old, new in zip_longest(route.targets(event.table), route.targets(event.new_table)):
            if old is None:
                self._create_at(event, new, schema)
            elif new is None:
                self._step(on.CaptureEnded(event.table, f"{event.new_table} goes elsewhere"), old, schema)
            else:
                self._step(event, old, schema, new)
        self.tables.sources = apply_changes(self.tables.sources, [RenameTable(event.table, event.new_table)])
        for _, table in self.tables.pairs_of(event.new_table):
            self.tables.merge(table, event.new_table)

    def _create_at(self, event: on.TableRenamed, new: Target, schema: TableSchema | None) -> None:
        """Handle a renamed table that is routed to one more sink table; its existing rows are not written there."""
        if schema is not None:
            step = Step(self.tables, event, new, schema, new)
            OPERATE["create renamed"](step)
            self._handle_induced()
            left_out = {TableState.PAUSED, TableState.RESUMED}
            states = (self.tables.states_of(event.table) | self.tables.states_of(event.new_table)) & left_out
            state = min(states, default=TableState.LIVE)
            self.tables.set_pair((event.new_table, new.table), PairState(state, self.tables.now.batch))
            text = f"rename.table {event.table} to {event.new_table}: the rows that are there do not come here"
            self.tables.sinks.add_notice(new.table, text)

    def _step(self, event: on.Event, target: Target, schema: TableSchema | None, new: Target | None = None) -> None:
        step = Step(self.tables, event, target, schema, new)
        if isinstance(event, on.TableChanged) and event.uncertain is None and (why := _why_rows_are_lost(step)):
            uncertain = on.Uncertain(f"{step.change_text}: {why}")
            step = Step(self.tables, replace(event, uncertain=uncertain), target, schema, new)
        cell = TRANSITIONS[step.state, type(event)]
        if isinstance(cell, Impossible):
            raise _impossible(step, cell)
        found = next((case for case in cell if all(holds(step, each) for each in case.when)), None)
        if found is None:
            raise EngineError(f"no case of the transition table holds for {step}", where=str(target.table))
        self._carry_out(step, found)

    def _carry_out(self, step: Step, case: Case) -> None:
        for name in case.do:
            if name != "swap":
                OPERATE[name](step)
                self._handle_induced()
        self._set_state(step, case)
        if case.notice:
            text = NOTICES[case.notice].format_map(step.notice_values)
            requested = self.tables.pair(step.pair).by_user and not step.policy.mirrors
            done = case.notice in CARRIED_OUT or (requested and case.notice in AS_REQUESTED)
            self.tables.sinks.add_notice(step.notice_table, text, done=done)
        if "swap" in case.do:
            swap_if_complete(self.tables, step.target.table)

    def _handle_induced(self) -> None:
        while self.tables.follow_ups:
            self.handle(self.tables.follow_ups.pop(0))

    def _set_state(self, step: Step, case: Case) -> None:
        before, to = self.tables.pair(step.pair), case.to
        if to in (TableState.SHADOW, TableState.FROZEN) and not self.tables.now.shadows:
            to = TableState.SNAPSHOT  # a sink without shadow tables has emptied the table
        after = before if to is None or to is before.state else self._enter_state(step.event, to, before)
        if isinstance(step.event, on.SnapshotRequested):
            after = _request_snapshot(after, step.event)
        elif isinstance(step.event, on.SnapshotBegun):
            after = replace(after, ordered=False)
        elif isinstance(step.event, on.SnapshotVoid) and after.state is TableState.SNAPSHOT:
            after = replace(after, ordered=True, since=self.tables.now.batch)
        if step.new is not None and ("rename pair" in case.do or "create renamed" in case.do):
            stays = ABSENT
            if "create renamed" in case.do and "drop" not in case.do:
                stays = PairState(TableState.DETACHED, self.tables.now.batch)
            self.tables.set_pair(step.pair, stays)
            if after.state in OPEN_ORDERS:  # the snapshot is requested under the new name
                after = replace(after, since=self.tables.now.batch)
            self.tables.set_pair((step.new_source, step.new.table), after)
            if "rename pair" in case.do:
                self.tables.sinks.rename_rows(step.new.table, step.source, step.new_source)
        else:
            self.tables.set_pair(step.pair, after)

    def _enter_state(self, event: on.Event, to: TableState, before: PairState) -> PairState:
        """The record of a pair that enters another state."""
        if to not in OPEN_ORDERS:
            ordered = before.ordered and to not in _NOT_SNAPSHOTTED
            return PairState(to, self.tables.now.batch, before.why, before.by_user and to in SNAPSHOTTED, ordered)
        match event:
            case on.RouteAdded():
                return PairState(to, self.tables.now.batch, MOVED, by_user=True)
            case on.ResumeRequested():
                return PairState(to, self.tables.now.batch, RESUMED, by_user=True)
            case on.RowsUnfit():
                return PairState(to, self.tables.now.batch, UNFIT, by_user=True)
            case on.SnapshotRequested(why=why, by_user=by_user):
                return PairState(to, self.tables.now.batch, why, by_user)
            case on.RowsUncertain(uncertain=uncertain):
                return PairState(to, self.tables.now.batch, uncertain.reason, before.by_user)
            case on.TableChanged(uncertain=on.Uncertain(reason=reason)):
                return PairState(to, self.tables.now.batch, reason, before.by_user)
            case on.TableRenamed():
                return PairState(to, self.tables.now.batch, before.why or RENAMED, before.by_user, before.ordered)
            case on.OperationRefused():
                why = "the sink does not take a change of its schema"
                return PairState(to, self.tables.now.batch, why, before.by_user)
            case _:
                return PairState(to, self.tables.now.batch, JOINED, before.by_user, before.ordered)


def _why_rows_are_lost(step: Step) -> str:
    """Why existing rows would not be found any more after a change of their table; empty if they are."""
    if step.is_respelled:
        return "values that tell rows apart are written differently in the sink"
    if step.leaves_values and holds(step, "not keyed") and holds(step, "replaceable"):
        return "rows without a key are found by all of their values, and existing rows would keep other values"
    return ""


def _statement(event: on.Event) -> SourceStatement | None:
    """The source's statement that caused an event, if any."""
    match event:
        case on.TableCreated(created=made) | on.TableChanged(change=made):
            return made.statement
        case on.TableTruncated() | on.TableDropped() | on.TableRenamed():
            return event.statement
        case _:
            return None


def _request_snapshot(record: PairState, event: on.SnapshotRequested) -> PairState:
    """The record of a pair after a snapshot request."""
    if record.state in OPEN_ORDERS:
        return replace(record, by_user=record.by_user or event.by_user)
    return replace(record, ordered=True, why=event.why) if record.state in SNAPSHOTTED else record


def _impossible(step: Step, cell: Impossible) -> EngineError:
    return EngineError(
        f"{step.source} is {step.state} there, and {type(step.event).__name__} came: {cell.why}",
        where=str(step.target.table),
        hint="the source's log and the state directory are of different pipelines, or this is a defect: report it",
    )


def shard_column_moved(source: TableId, old: Target, new: Target) -> EditRefused:
    """The error for a changed `shard-column` of an existing sink table."""
    before, now = (target.shard_column or "none" for target in (old, new))
    return EditRefused(
        f"the shard-column of {source} was {before} and is {now} now: existing rows have the old one",
        where=str(new.table),
        hint="revert the edit, or give the rule another sink-table",
    )


def unfit_rows(tables: Tables, routes: RouteTable) -> Iterator[on.RowsUnfit]:
    """Events for source tables whose rows do not fit exactly into a sink table that they alone are routed to."""
    for source, schema in sorted(tables.sources.items()):
        for target in routes.targets(source):
            existing, state = tables.sinks.get(target.table), tables.sink_state(target.table)
            if not (
                existing is None or state.merged or fits_exactly(with_shard(schema, target), state.shadow or existing)
            ):
                yield on.RowsUnfit(source, target)


def batch_outcome(
    now: Circumstances,
    before: Tables,
    events: Sequence[on.Event],
    edits: Iterable[on.Event] = (),
    left: Leftovers = NO_LEFTOVERS,
) -> BatchOutcome:
    """The outcome of the events of a batch, after the effects of an edited pipeline file.

    Args:
        edits: the effects of the edited file, besides those of its routes.
        left: what earlier tries of the batch have left in the sink.

    Raises ChangeRefused if the run has to stop, EngineError for an impossible event, EditRefused.
    """
    machine = Machine(now, before)
    machine.restore(left)
    machine.apply_edits(edits)
    machine.tables.renames = [event for event in events if isinstance(event, on.TableRenamed)]
    for event in events:
        machine.handle(event)
    machine.drop_stale_shadows(left)
    return machine.outcome()


def suspend_refused(now: Circumstances, tables: Tables, sources: Mapping[TableId, TableId]) -> Tables:
    """The tables after the sink has refused changes of some sink tables: each waits for a snapshot.

    `sources` maps each of these sink tables to its only source table.
    """
    machine = Machine(now, tables)
    for table, source in sources.items():
        machine.handle(on.OperationRefused(source, Target(table), "a change of its schema", resnapshot_helps=True))
    return machine.outcome().after
