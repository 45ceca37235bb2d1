"""The machine does what the transition table says, and keeps the invariants of tables whatever comes."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from itertools import product

import pytest
from invariants import ALL, ID, KEYED, KEYLESS, NOTE, ONE, ROUTES, WIDE, A, B, C, D, check, to
from tiers import EXHAUSTIVE
from together import together

from cdc.errors import ChangeRefused, EngineError
from cdc.events import advance_schemas
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior, Policy
from cdc.route import Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropShadow,
    Position,
    RenameColumn,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.tables import events as on
from cdc.tables.cells import Impossible
from cdc.tables.machine import Machine, batch_outcome
from cdc.tables.states import AWAITED, IN_SHADOW, OPEN_ORDERS, PairState, SinkState, Tables, TableState
from cdc.tables.table_map import Circumstances, Leftovers
from cdc.tables.transitions import TRANSITIONS

UNSURE = on.Uncertain("values were converted")


EVENTS: dict[type[on.Event], on.Event] = {
    type(event): event
    for event in (
        on.TableCreated(A, CreateTable(A, KEYED)), on.TableChanged(A, AddColumn(A, NOTE)), on.RowsUncertain(A, UNSURE),
        on.TableTruncated(A), on.TableDropped(A), on.TableRenamed(A, D), on.CaptureEnded(A, "it is excluded"),
        on.SnapshotVoid(A), on.SnapshotBegun(A), on.SnapshotDone(A), on.SnapshotRequested(A), on.PauseRequested(A),
        on.ResumeRequested(A), on.RouteAdded(A, Target(ALL)), on.RouteRemoved(A, Target(ALL)),
        on.RowsUnfit(A, Target(ALL)), on.OperationRefused(A, Target(ALL), "no", resnapshot_helps=True),
        on.ShadowBegun(A, Target(ALL)),
    )
}  # fmt: skip


@together("state", TableState)
def test_every_pair_of_state_and_event_comes_to_what_the_table_says(state: TableState) -> None:
    for event, merged in product(on.EVENTS, (False, True)):
        _check_pair(state, event, merged)


def _check_pair(state: TableState, event: type[on.Event], merged: bool) -> None:
    cell = TRANSITIONS[state, event]
    sources = {A: KEYED, **({B: KEYED} if merged else {})}
    if state in (TableState.ABSENT, TableState.DETACHED) and event is not on.RouteAdded:
        sources.pop(A)
    shadowed = state in (TableState.SHADOW, TableState.FROZEN)
    pairs = {(A, ALL): PairState(state), **({(B, ALL): PairState(TableState.LIVE)} if merged else {})}
    sinks = {} if state in (TableState.ABSENT, TableState.MISSING) and not merged else {ALL: KEYED}
    before = Tables(sources, sinks, pairs, {ALL: SinkState(merged, shadowed)})
    machine = Machine(Circumstances(to((r"shop.\.*", ALL)), Policy(Behavior.EVOLVE), batch=7), before)
    if isinstance(cell, Impossible):
        with pytest.raises(EngineError):
            machine.handle(EVENTS[event])
        return
    allowed = {state if case.to is None else case.to for case in cell}
    try:
        machine.handle(EVENTS[event])
    except ChangeRefused:
        assert any("stop" in case.do for case in cell)
        return
    new = machine.tables.state((D if event is on.TableRenamed and state is not TableState.ABSENT else A, ALL))
    assert new in allowed, (event, merged)
    pair = machine.tables.pair((A, ALL))
    if event is not on.TableRenamed and pair.state is not TableState.ABSENT:
        again = state is TableState.SNAPSHOT and event is on.SnapshotVoid  # the order is a new one
        assert pair.since == (0 if pair.state is state and not again else 7)


@together("state, then", [(TableState.SHADOW, TableState.REQUESTED), (TableState.FROZEN, TableState.SUSPENDED)])
def test_a_label_more_does_not_miss_the_shadow_table(state: TableState, then: TableState) -> None:
    """Only the source tells the types apart, but a sink that has the source's refuses the label."""
    old, new = (Column("e", DataType.parse("VARCHAR(1)"), source_type=own) for own in ("enum('a')", "enum('a','b')"))
    schema = TableSchema((*KEYED.columns, old), KEYED.primary_key)
    before = Tables({A: schema}, {ALL: schema}, {(A, ALL): PairState(state)}, {ALL: SinkState(shadowed=True)})
    machine = Machine(Circumstances(to(("shop.a", ALL)), Policy(Behavior.EVOLVE)), before)
    machine.handle(on.TableChanged(A, AlterColumnType(A, new, old)))
    assert machine.tables.state((A, ALL)) is then
    assert not machine.tables.sinks.state(ALL).shadowed


@together("merged", [False, True])
def test_a_table_that_is_taken_in_again_says_that_its_earlier_rows_stay(merged: bool) -> None:
    """Those that are gone from the source meanwhile, or have their key in another spelling, are beside the others."""
    now = Circumstances(to((r"shop.\.*", ALL)), Policy(Behavior.LENIENT))
    pairs = {(table, ALL): PairState(TableState.LIVE) for table in (A, *((B,) if merged else ()))}
    before = Tables(dict.fromkeys((A, B), KEYED), {ALL: KEYED}, pairs, {ALL: SinkState(merged)})
    left = batch_outcome(now, before, [on.CaptureEnded(A, "the source leaves it out")]).after
    found = batch_outcome(now, left, [on.TableCreated(A, CreateTable(A, KEYED), by_snapshot=True)])
    assert found.after.state((A, ALL)) is TableState.SNAPSHOT
    assert [notice.name for notice in found.notices] == ["snapshot.overwrites"]


def test_a_table_that_is_taken_in_again_has_the_labels_of_the_time_between() -> None:
    one, two = (
        TableSchema((*KEYED.columns, Column("e", DataType.parse("STRING"), source_type=own)), KEYED.primary_key)
        for own in ("enum('a')", "enum('a','b')")
    )
    now = Circumstances(to(("shop.a", ALL)), Policy(Behavior.LENIENT))
    left = Tables({}, {ALL: one}, {(A, ALL): PairState(TableState.DETACHED)}, {})
    found = batch_outcome(now, left, [on.TableCreated(A, CreateTable(A, two), by_snapshot=True)])
    assert [change.column.name for change in found.operations if isinstance(change, AlterColumnType)] == ["e"]


def test_an_impossible_event_names_the_state_and_the_reason() -> None:
    before = Tables({A: KEYED}, {ALL: KEYED}, {(A, ALL): PairState(TableState.SHADOW)}, {ALL: SinkState(shadowed=True)})
    machine = Machine(Circumstances(to(("shop.a", ALL)), Policy(Behavior.EVOLVE)), before)
    with pytest.raises(
        EngineError, match=r"ods.all: shop.a is shadow there, and SnapshotBegun came: a running snapshot"
    ):
        machine.handle(on.SnapshotBegun(A))


@together(
    "change, columns",
    [
        (RenameColumn(A, "note", "remark"), ["note and remark"]),
        (RenameColumn(A, "note", "Note"), []),
        (DropColumn(A, "note"), ["note"]),
    ],
)
def test_a_notice_says_that_rows_of_a_merged_table_keep_what_they_have(
    change: SchemaChange, columns: list[str]
) -> None:
    live = {(table, ALL): PairState(TableState.LIVE) for table in (A, B)}
    before = Tables({A: WIDE, B: WIDE}, {ALL: WIDE}, live, {ALL: SinkState(merged=True)})
    machine = Machine(Circumstances(to((r"shop.\.*", ALL)), Policy(Behavior.EVOLVE), batch=7), before)
    machine.handle(on.TableChanged(A, change))
    texts = " ".join(notice.text for notice in machine.outcome().notices)
    assert re.findall(r"keep what they have in (.*) until", texts) == columns


@together(
    "event, state",
    [
        (on.TableChanged(A, AlterColumnType(A, Column("id", DataType.parse("DOUBLE"))), UNSURE), TableState.SUSPENDED),
        (on.TableChanged(A, AlterPrimaryKey(A, ("id", "note")), UNSURE), TableState.SUSPENDED),
        (on.TableChanged(A, AlterColumnType(A, Column("note", DataType.parse("DATE"))), UNSURE), TableState.REQUESTED),
        (on.SnapshotRequested(A, by_user=False), TableState.SUSPENDED),
        (on.SnapshotRequested(A), TableState.REQUESTED),
    ],
)
def test_rows_whose_keys_got_other_values_are_not_written_over_the_old_ones(event: on.Event, state: TableState) -> None:
    """With `lenient`, too, which keeps rows: each would be there under both keys."""
    before = Tables({A: WIDE}, {ONE: WIDE}, {(A, ONE): PairState(TableState.LIVE)})
    machine = Machine(Circumstances(to(("shop.a", ONE)), Policy(Behavior.LENIENT)), before)
    machine.handle(event)
    assert machine.tables.state((A, ONE)) is state


@pytest.mark.parametrize(
    ("old", "new", "there", "uncertain"),
    [
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", "STRING", None),
        ("INT", "DECIMAL(44, 2)", "INT", UNSURE),
        ("DATE", "TIMESTAMP(0)", "STRING", None),
        ("DOUBLE", "DECIMAL(10, 2)", "STRING", UNSURE),
    ],
)
@pytest.mark.parametrize("behavior", [Behavior.EVOLVE, Behavior.LENIENT])
def test_rows_whose_keys_the_sink_writes_differently_are_all_replaced_or_the_run_stops(
    old: str, new: str, there: str, uncertain: on.Uncertain | None, behavior: Behavior
) -> None:
    """Though the log tells their values: a row that comes would not meet the one that is there."""
    key, later, sink = (Column("id", DataType.parse(each), nullable=False) for each in (old, new, there))
    live = {(table, ALL): PairState(TableState.LIVE) for table in (A, B)}
    sources = dict.fromkeys((A, B), TableSchema((key,), ("id",)))
    before = Tables(sources, {ALL: TableSchema((sink,), ("id",))}, live, {ALL: SinkState(merged=True)})
    machine = Machine(Circumstances(to((r"shop.\.*", ALL)), Policy(behavior)), before)
    event = on.TableChanged(A, AlterColumnType(A, later, key), uncertain)
    if behavior is Behavior.LENIENT:
        with pytest.raises(ChangeRefused, match="would be other rows than those that come"):
            machine.handle(event)
    else:
        machine.handle(event)
        assert machine.tables.state((A, ALL)) is TableState.REQUESTED


def test_a_key_column_is_found_in_any_case() -> None:
    capitals = replace(WIDE, columns=tuple(replace(each, name=each.name.upper()) for each in WIDE.columns),
                       primary_key=("ID",))  # fmt: skip
    before = Tables({A: capitals}, {ONE: WIDE}, {(A, ONE): PairState(TableState.LIVE)})
    machine = Machine(Circumstances(to(("shop.a", ONE)), Policy(Behavior.LENIENT)), before)
    machine.handle(on.TableChanged(A, AlterColumnType(A, Column("ID", DataType.parse("DOUBLE"))), UNSURE))
    assert machine.tables.state((A, ONE)) is TableState.SUSPENDED


FROZEN = Tables(
    {A: WIDE}, {ALL: KEYED}, {(A, ALL): PairState(TableState.FROZEN)}, {ALL: SinkState(shadowed=True, shadow=WIDE)}
)
"""The shadow table has a column that the table gets when it is swapped in."""


def test_columns_that_are_one_but_for_their_case_are_refused() -> None:
    """Those of the source's: MySQL tells `maße` and `masse` apart."""
    one, other = (Column(name, DataType.parse("INT")) for name in ("maße", "masse"))
    created = CreateTable(A, TableSchema((ID, one, other)))
    for event in (
        on.TableCreated(A, created), on.SnapshotBegun(A, created=created), on.TableChanged(A, AddColumn(A, other)),
    ):  # fmt: skip
        with pytest.raises(ChangeRefused, match="its columns maße and masse are the same here"):
            advance_schemas({A: TableSchema((ID, one))}, event)


def test_a_shadow_table_with_columns_of_its_own_begins_again_when_another_source_table_joins() -> None:
    """Rows of that one go to both tables, which then have the same columns."""
    machine = Machine(Circumstances(to((r"shop.\.*", ALL)), Policy(Behavior.EVOLVE)), FROZEN)
    machine.handle(on.TableCreated(B, CreateTable(B, KEYED)))
    assert machine.tables.sinks.operations == (CreateShadow(ALL),)
    machine.handle(on.SnapshotBegun(A))
    assert machine.tables.sinks.operations == (AddColumn(ALL, NOTE, Position(after="id")), CreateShadow(ALL))


@together(
    "event, after",
    [
        (on.PauseRequested(A), KEYED),
        (on.RowsUncertain(A, UNSURE), KEYED),
        (on.TableTruncated(A), KEYED),
        (on.RouteRemoved(A, Target(ALL)), KEYED),
        (on.SnapshotDone(A), WIDE),
    ],
)
def test_a_table_has_the_columns_of_its_shadow_table_once_that_is_swapped_in(event: on.Event, after: object) -> None:
    """A shadow table that is dropped takes its own with it; the operations alone tell that, too."""
    machine = Machine(Circumstances(to(("shop.a", ALL)), Policy(Behavior.EVOLVE)), FROZEN)
    machine.handle(event)
    assert machine.tables.sinks.schemas == {ALL: after} == apply_changes(FROZEN.sinks, machine.tables.sinks.operations)
    assert machine.tables.sinks.state(ALL).shadow is None


def test_a_shadow_table_of_a_try_that_had_other_routes_goes_with_no_table_known_under_its_name() -> None:
    created = on.TableCreated(A, CreateTable(A, KEYED))
    outcome = batch_outcome(Circumstances(to(("shop.a", ONE))), Tables(), [created], left=Leftovers([ALL]))
    assert outcome.operations == (CreateTable(ONE, KEYED), DropShadow(ALL))
    assert outcome.after.sinks == {ONE: KEYED} == apply_changes({}, outcome.operations)


@dataclass
class Source:
    """Tables of a source that snapshots them, and takes orders up; gives events as one may."""

    chance: random.Random
    keyed: bool
    tables: dict[TableId, TableSchema] = field(default_factory=dict)
    running: set[TableId] = field(default_factory=set)

    def events(self, orders: frozenset[TableId]) -> list[on.Event]:
        found: list[on.Event] = []
        for _ in range(self.chance.randrange(4)):
            self._one(found)
        for table in sorted(orders & self.tables.keys()):
            if self.chance.random() < 0.5:
                self._begin(found, table)
        return found

    def _begin(self, found: list[on.Event], table: TableId) -> None:
        if table in self.running:
            found.append(on.SnapshotVoid(table))
        self.running.add(table)
        found.append(on.SnapshotBegun(table, keys_certain=self.chance.random() < 0.3))

    def _one(self, found: list[on.Event]) -> None:
        absent = [table for table in (A, B, C, D) if table not in self.tables]
        if absent and (not self.tables or self.chance.random() < 0.3):
            table = self.chance.choice(absent)
            by_snapshot = self.chance.random() < 0.5
            self.tables[table] = KEYED if self.keyed else KEYLESS
            found.append(on.TableCreated(table, CreateTable(table, self.tables[table]), by_snapshot))
            if by_snapshot:
                self.running.add(table)
            return
        table = self.chance.choice(sorted(self.tables))
        kind = self.chance.choice(("drop", "left", "truncate", "change", "uncertain", "gap", "rename", "begin", "done"))
        if kind in ("drop", "left"):
            del self.tables[table]
            self.running.discard(table)
            found.append(on.TableDropped(table) if kind == "drop" else on.CaptureEnded(table, "it is excluded"))
        elif kind == "truncate":
            self.running.discard(table)
            found.append(on.TableTruncated(table))
        elif kind == "done":
            if table in self.running:
                self.running.discard(table)
                found.append(on.SnapshotDone(table))
        elif kind == "begin":
            self._begin(found, table)
        elif kind == "rename" and absent:
            new = self.chance.choice(absent)
            self.tables[new] = self.tables.pop(table)
            if table in self.running:
                self.running.discard(table)
                found.append(on.SnapshotVoid(table))
            found.append(on.TableRenamed(table, new))
        elif kind in ("uncertain", "gap"):
            again = table in self.running
            if again:
                found.append(on.SnapshotVoid(table))
            found.append(on.RowsUncertain(table, UNSURE, gap=kind == "gap"))
            self.running.discard(table)
            if again or self.chance.random() < 0.5:
                self._begin(found, table)
        elif kind == "change":
            uncertain = self.chance.choice((None, UNSURE, on.Uncertain("values", same_rows=True)))
            if table in self.running:
                found.append(on.SnapshotVoid(table))
            self._change(found, table, uncertain)
            if table in self.running:
                self.running.discard(table)
                self._begin(found, table)

    def _change(self, found: list[on.Event], table: TableId, uncertain: on.Uncertain | None) -> None:
        schema = self.tables[table]
        change = DropColumn(table, "note") if NOTE in schema.columns else AddColumn(table, NOTE)
        columns = (ID,) if NOTE in schema.columns else (ID, NOTE)
        self.tables[table] = TableSchema(columns, schema.primary_key)
        found.append(on.TableChanged(table, change, uncertain))


@pytest.mark.parametrize("first", [0, pytest.param(250, marks=EXHAUSTIVE)])
def test_invariants_hold_whatever_comes(first: int) -> None:
    batches = 0
    for seed in range(first, first + 250):
        chance = random.Random(seed)
        policy = Policy(chance.choice((Behavior.EVOLVE, Behavior.LENIENT, Behavior.TRY_EVOLVE, Behavior.IGNORE)))
        source, shadows, route = Source(chance, chance.random() < 0.8), chance.random() < 0.8, chance.choice(ROUTES)
        tables = Tables()
        for batch in range(15):
            if chance.random() < 0.15:
                route = chance.choice(ROUTES)
            requests: list[on.Event] = []
            if source.tables and chance.random() < 0.3:
                kind = chance.choice((on.PauseRequested, on.ResumeRequested, on.ResumeRequested, on.SnapshotRequested))
                requests.append(kind(chance.choice(sorted(source.tables))))
            now = Circumstances(route, policy, shadows, batch=batch)
            try:
                plan = batch_outcome(now, tables, [*requests, *source.events(tables.in_state(*OPEN_ORDERS))])
            except ChangeRefused:
                break
            check(plan.after, shadows=shadows)
            tables, batches = plan.after, batches + 1
    assert batches > 1500


def test_states_of_the_sets_are_consistent() -> None:
    assert OPEN_ORDERS < AWAITED
    assert not OPEN_ORDERS & IN_SHADOW
