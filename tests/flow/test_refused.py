"""Schema changes that the sink refuses: where it can have the table as it is to be, that is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LOG, ROWS, LiveSource
from together import together

from cdc import events as on
from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.job.pausing import find_source_table
from cdc.offsets import source_offset
from cdc.planning.differences import unfit_notes
from cdc.planning.last_run import LastRun
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.source import Order, Snapshots
from cdc.spec.model import RouteRule
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import FailAt, ListSink, ListSource, block, run_in_memory

A, B, ALL = TableId("shop", "a"), TableId("shop", "b"), TableId("ods", "all")
INT, TEXT = DataType.parse("INT"), DataType.parse("STRING")
ID = Column("id", INT, nullable=False)
BEFORE = TableSchema((ID, Column("v", INT)), ("id",))
AFTER = TableSchema((ID, Column("v", TEXT)), ("id",))
MORE = TableSchema((ID, Column("v", TEXT), Column("more", INT)), ("id",))
REFUSED = AlterColumnType(A, Column("v", TEXT), Column("v", INT))


class Stubborn(ListSink):
    """Does not change the type of a column of a table that is there."""

    resnapshot_helps = True

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, AlterColumnType) and change.column != change.old:
                raise ChangeRefused("not in place", where=str(change.table), resnapshot_helps=self.resnapshot_helps)
        super().apply(batch, changes)


def how(behavior: str = "evolve", *rules: RouteRule) -> Middle:
    return Middle(RouteTable(rules), Policy(Behavior(behavior)), Coercion("fail"))


def items(*more: Any) -> list[Any]:
    first = block(A, BEFORE, [("+I", {"id": 1, "v": 1}), ("+I", {"id": 2, "v": 2})])
    return [CreateTable(A, BEFORE), first, REFUSED, block(A, AFTER, [("+I", {"id": 3, "v": "x"})], sequence=2), *more]


def copied(schema: TableSchema = AFTER) -> Any:
    return block(A, schema, [("+I", {"id": 1, "v": "1"}), ("+I", {"id": 3, "v": "x"})], sequence=9)


def values(sink: ListSink, table: TableId = A) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in sink.rows(table)}


@pytest.mark.parametrize("behavior", ["evolve", "lenient"])
def test_the_table_is_copied_as_it_is_to_be(behavior: str) -> None:
    sink, source = Stubborn(), LiveSource(items(), {A: copied()})
    done = run_in_memory(source, sink, middle=how(behavior))
    assert values(sink) == {1: "1", 3: "x"}
    assert done.reasons["refused-by-sink alter.column.type shop.a"] == 1


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_on_the_way_changes_nothing(failure: FailAt, tmp_path: Path) -> None:
    sink = Stubborn()
    source = LiveSource([*items()[:3], failure, *items()[3:]], {A: copied()})
    run_in_memory(source, sink, middle=how(), state=tmp_path)
    assert values(sink) == {1: "1", 3: "x"}
    assert len(source.requests) == 1


def test_what_follows_for_the_table_goes_with_its_copy_and_other_tables_go_on() -> None:
    other = [CreateTable(B, BEFORE), AddColumn(B, Column("more", INT))]
    added = [AddColumn(A, Column("more", INT)), block(A, MORE, [("+I", {"id": 4, "v": "y"})], sequence=5)]
    sink, source = Stubborn(), LiveSource(items(*other, *added), {A: copied(MORE)})
    run_in_memory(source, sink, middle=how())
    assert values(sink) == {1: "1", 3: "x"}
    assert all("more" in row for row in sink.rows(A))
    assert B in sink.tables
    assert len(source.requests) == 1


def test_readers_find_the_rows_that_were_there_until_the_copy_is_whole() -> None:
    seen: list[int] = []

    class Watched(Stubborn):
        def commit(self, batch: int, prepared: Any) -> None:
            super().commit(batch, prepared)
            seen.append(len(self.rows(A)))

    run_in_memory(LiveSource(items(), {A: copied()}), Watched(), middle=how())
    assert min(seen[1:]) == 2


def test_a_copy_that_begins_with_the_refused_change_is_not_in_the_way() -> None:
    first = items()[:2]
    halves = [replace(copied(), streams=streams) for streams in (LOG, ROWS)]
    sink, source = (
        Stubborn(),
        LiveSource([*first, REFUSED, on.SnapshotBegun(A), *halves, on.SnapshotDone(A)], {}),
    )
    source.now[A] = copied()
    run_in_memory(source, sink, middle=how())
    assert (values(sink), sink.tables) == ({1: "1", 3: "x"}, {A})


def test_a_second_refused_change_of_a_table_that_is_being_copied_is_carried_out_too() -> None:
    back = AlterColumnType(A, Column("v", INT), Column("v", TEXT))
    script = [*items()[:3], on.SnapshotBegun(A), replace(copied(), streams=ROWS), back, on.SnapshotDone(A)]
    last = block(A, BEFORE, [("+I", {"id": 1, "v": 1}), ("+I", {"id": 5, "v": 5})], sequence=30)
    sink = Stubborn()
    run_in_memory(LiveSource(script, {A: last}), sink, middle=how())
    assert (values(sink), sink.tables) == ({1: 1, 5: 5}, {A})


KEY = AlterPrimaryKey(A, ("id", "v"))
KEYED = TableSchema((ID, Column("v", INT, nullable=False)), ("id", "v"))


class FirmKeys(ListSink):
    """Does not change the key of a table that is there."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, AlterPrimaryKey):
                raise ChangeRefused("a row has no such key", where=str(change.table), resnapshot_helps=True)
        super().apply(batch, changes)


def keyed_again() -> LiveSource:
    """A source that copies a table where the user asks for it; the table has got another key, and rows since."""
    number = AlterColumnType(A, Column("v", INT, nullable=False), Column("v", INT))
    later = block(A, KEYED, [("+I", {"id": 3, "v": 3})], sequence=2)
    now = block(A, KEYED, [("+I", {"id": 1, "v": 0}), ("+I", {"id": 3, "v": 3})], sequence=9)
    source = LiveSource([*items()[:2], number, KEY, later], {A: now})
    source.allowed = False
    source.snapshots = lambda table: Snapshots.ON_REQUEST  # type: ignore[method-assign]
    return source


@together("behavior", ["evolve", "lenient", "try_evolve"])
@together("failure", [None, *FailAt])
def test_a_copy_that_the_user_asks_for_takes_the_table_as_it_is_whatever_was_refused(
    tmp_path: Path, behavior: str, failure: FailAt | None
) -> None:
    """The hint is followed: the source copies nothing unasked, as with `earliest-offset`."""
    sink, source = FirmKeys(), keyed_again()
    with pytest.raises(ChangeRefused, match="a row has no such key") as caught:
        run_in_memory(source, sink, middle=how(behavior), state=tmp_path)
    assert "`cdc resync FILE shop.a`" in caught.value.hint
    log = CommitLog(StateDir(tmp_path).commits)
    Mailbox(StateDir(tmp_path).store).add(A, RequestKind.SNAPSHOT)
    decision = log.get(log.last())
    assert decision is not None
    source.add(*filter(None, [failure]))
    start, batch = source_offset(decision.end), decision.batch + 1
    run_in_memory(source, sink, middle=how(behavior), state=tmp_path, start=start, first_batch=batch)
    assert values(sink) == {1: 0, 3: 3}
    assert list(source.requests.values()) == [A]


def test_one_request_is_enough_for_all_changes_that_are_refused_until_the_copy_is_whole(tmp_path: Path) -> None:
    """The log is behind the server: changes come as the copy begins, and while it runs."""
    source = LiveSource(items()[:2], {A: block(A, BEFORE, [("+I", {"id": 5, "v": 5})], sequence=30)})
    source.snapshots = lambda table: Snapshots.ON_REQUEST  # type: ignore[method-assign]
    sink = Stubborn()
    begun = run_in_memory(source, sink, middle=how(), state=tmp_path)
    Mailbox(StateDir(tmp_path).store).add(A, RequestKind.SNAPSHOT)
    back = AlterColumnType(A, Column("v", INT), Column("v", TEXT))
    row = block(A, BEFORE, [("+I", {"id": 4, "v": 4})], sequence=2)
    source.add(row, REFUSED, on.SnapshotBegun(A), replace(copied(), streams=ROWS))
    source.add(on.SnapshotVoid(A), back, on.SnapshotBegun(A), replace(source.now[A], streams=ROWS))
    run_in_memory(source, sink, middle=how(), state=tmp_path, start=begun.offset, first_batch=begun.batches)
    assert (values(sink), sink.tables) == ({5: 5}, {A})


@together(
    "behavior, gone",
    [
        ("evolve", on.CaptureEnded(A, "renamed")),
        ("lenient", on.CaptureEnded(A, "renamed")),
        ("lenient", DropTable(A)),
        ("lenient", RenameTable(A, B)),
    ],
)
def test_a_refused_change_of_a_table_that_nobody_follows_behind_the_batch_is_left_out(behavior: str, gone: Any) -> None:
    """B goes to a table of its own, which cannot be the renamed one: it is there already."""
    rules = [RouteRule(source_table=str(B), sink_table=str(ALL))] if isinstance(gone, RenameTable) else []
    first = [CreateTable(ALL, AFTER)] if rules else []
    sink = Stubborn()
    sink.resnapshot_helps = False
    run_in_memory(LiveSource([*first, *items()[:3], gone], {}), sink, middle=how(behavior, *rules))
    assert values(sink) == {1: 1, 2: 2}


def test_so_does_one_of_a_table_that_is_made_and_renamed_in_the_refused_batch(tmp_path: Path) -> None:
    """No decided batch knows it: the plan of the refused one does."""
    now = block(B, KEYED, [("+I", {"id": 1, "v": 0})], sequence=9)
    number = AlterColumnType(A, Column("v", INT, nullable=False), Column("v", INT))
    source = LiveSource([*items()[:2], number, KEY, RenameTable(A, B)], {B: now})
    source.snapshots = lambda table: Snapshots.ON_REQUEST  # type: ignore[method-assign]
    sink, middle = FirmKeys(), how()
    with pytest.raises(ChangeRefused, match=r"`cdc resync FILE shop\.b`"):
        run_in_memory(source, sink, middle=middle, state=tmp_path, limits=None)
    state = StateDir(tmp_path)
    assert find_source_table(state, str(B)) == B
    Mailbox(state.store).add(B, RequestKind.SNAPSHOT)
    run_in_memory(source, sink, middle=middle, state=tmp_path, limits=None)
    assert values(sink, B) == {1: 0}


def test_a_table_that_is_renamed_while_it_waits_keeps_its_limit_and_the_reason() -> None:
    found: list[tuple[TableId, Order]] = []

    class Noting(LiveSource):
        def order(self, orders: Mapping[TableId, Order]) -> None:
            found.extend(orders.items())
            super().order({table: order for table, order in orders.items() if table == B})

    named = [replace(copied(), table=B)]
    source = Noting([*items(), RenameTable(A, B), *named], {B: replace(copied(), table=B)})
    run_in_memory(source, sink := Stubborn(), middle=how(), limits=None)
    assert {(table, order.reason, order.limited) for table, order in found} == {
        (table, "the sink does not take a change of its schema", True) for table in (A, B)
    }
    assert values(sink, B) == {1: "1", 3: "x"}


@together(
    "why, behavior, change",
    [
        ("final", "evolve", {"resnapshot_helps": False}),
        ("not copied", "evolve", {"allowed": False}),
        ("rows are kept", "lenient", {"dropped": True}),
        ("merged", "evolve", {"merged": True}),
    ],
)
def test_what_a_copy_does_not_help_stops(why: str, behavior: str, change: dict[str, bool]) -> None:
    script, rules = items(), []
    if change.get("dropped"):
        gone = TableSchema((ID, Column("v", INT), Column("gone", INT)), ("id",))
        script = [CreateTable(A, gone), block(A, gone, [("+I", {"id": 1})]), DropColumn(A, "gone"), REFUSED]
    if change.get("merged"):
        rules = [RouteRule(source_table=r"shop.\.*", sink_table=str(ALL))]
        script = [CreateTable(B, BEFORE), *script]
    sink, source = Stubborn(), LiveSource(script, {A: copied()})
    sink.resnapshot_helps, source.allowed = change.get("resnapshot_helps", True), change.get("allowed", True)
    with pytest.raises(ChangeRefused, match="not in place") as caught:
        run_in_memory(source, sink, middle=how(behavior, *rules))
    assert ("start over with an empty --state-dir" in caught.value.hint) is (why == "merged")
    assert source.requests == {}


def test_a_swap_of_names_is_not_undone_when_a_table_is_left_out_after_a_refusal(tmp_path: Path) -> None:
    spare = TableId("shop", "spare")
    swap = [RenameTable(A, spare), RenameTable(B, A), RenameTable(spare, B)]
    first: list[Any] = [CreateTable(table, BEFORE) for table in (A, B, ALL)]
    first += [block(table, BEFORE, [("+I", {"id": number})]) for number, table in ((1, A), (2, B))]
    sink = Stubborn()
    sink.resnapshot_helps = False
    begun = run_in_memory(ListSource(first), sink, middle=how(), state=tmp_path)

    def goes_on(last: SchemaChange) -> None:
        run_in_memory(
            ListSource([*first, *swap, last]), sink, middle=how(), state=tmp_path, start=begun.offset,
            first_batch=begun.batches,
        )  # fmt: skip

    with pytest.raises(ChangeRefused, match="not in place"):
        goes_on(replace(REFUSED, table=ALL))
    goes_on(AddColumn(ALL, Column("more", INT)))
    assert [row["id"] for row in sink.rows(A)] == [2]
    assert [row["id"] for row in sink.rows(B)] == [1]
    assert spare not in sink.tables


@together(
    "then, left",
    [
        ([DropTable(A)], {}),
        (
            [DropTable(A), CreateTable(A, BEFORE), block(A, BEFORE, [("+I", {"id": 7, "v": 7})], sequence=5)],
            {A: {7: 7}},
        ),
        ([RenameTable(A, B)], {B: {1: "1", 3: "x"}}),
        ([TruncateTable(A)], {A: {1: "1", 3: "x"}}),
    ],
)
def test_what_happens_to_the_whole_table_right_behind_a_refused_change(then: list[Any], left: dict[Any, Any]) -> None:
    sink = Stubborn()
    copies = {table: replace(copied(), table=table) for table in (A, B)}
    run_in_memory(LiveSource([*items()[:3], *then], copies), sink, middle=how())
    assert {table: values(sink, table) for table in sink.tables} == left


def test_no_shadow_table_stays_of_a_snapshot_that_a_refused_change_has_ended() -> None:
    """Another one may never begin: the table can leave the pipeline."""
    row = block(A, BEFORE, [("+I", {"id": 5, "v": 5})], sequence=2)
    again = [on.SnapshotVoid(A), REFUSED, on.SnapshotBegun(A)]
    source, sink = ListSource([*items()[:2], on.SnapshotBegun(A), row, *again]), Stubborn()
    source.snapshots = lambda table: Snapshots.ALWAYS  # type: ignore[method-assign]
    run_in_memory(source, sink, middle=how())
    assert sink.tables == {A}


def test_a_change_that_a_table_of_several_does_not_take_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    """As the error says."""
    rules = [RouteRule(source_table=r"shop.\.*", sink_table=str(ALL))]
    other = block(B, BEFORE, [("+I", {"id": 9, "v": 9})], sequence=3)
    sink, source = Stubborn(), LiveSource([CreateTable(B, BEFORE), *items()[:2], other], {})
    begun = run_in_memory(source, sink, middle=how("evolve", *rules), state=tmp_path)
    source.add(REFUSED, block(A, AFTER, [("+I", {"id": 3, "v": "3"})], sequence=4))

    def goes_on(behavior: str) -> None:
        run_in_memory(
            source, sink, middle=how(behavior, *rules), state=tmp_path, start=begun.offset, first_batch=begun.batches
        )

    with pytest.raises(ChangeRefused, match=r"not in place .*schema.change.behavior: try_evolve, which skips"):
        goes_on("evolve")
    goes_on("try_evolve")
    assert values(sink, ALL) == {1: 1, 2: 2, 9: 9, 3: 3}


@together(
    "before, after",
    [
        (Policy(Behavior.TRY_EVOLVE), Policy(Behavior.EVOLVE)),
        (Policy(Behavior.IGNORE), Policy(Behavior.EXCEPTION)),
        (Policy(Behavior.EVOLVE, exclude=("add.column",)), Policy(Behavior.EVOLVE)),
        (Policy(Behavior.EVOLVE, exclude=("add.column",)), None),
    ],
)
def test_columns_that_were_left_out_come_with_an_edit_of_the_behavior_or_a_copy_that_the_user_asks_for(
    tmp_path: Path, before: Policy, after: Policy | None
) -> None:
    """`after` is None for a user who asks, with `try_evolve`."""
    wide = TableSchema((*BEFORE.columns, Column("more", INT)), ("id",))
    added = AddColumn(A, Column("more", INT))
    later = block(A, wide, [("+I", {"id": 3, "v": 3, "more": 3})], sequence=2)
    now = block(A, wide, [("+I", {"id": key, "v": key, "more": key}) for key in (1, 2, 3, 4)], sequence=9)
    sink, source = FirmColumns(), LiveSource([*items()[:2], added, later], {A: now})
    routes, coercion = RouteTable(), Coercion("fail")
    begun = run_in_memory(source, sink, middle=Middle(routes, before, coercion), state=tmp_path)
    assert "more" not in sink.rows(A)[-1]
    noted = unfit_notes(LastRun.read(StateDir(tmp_path)), Middle(routes, after or before), source)
    assert [*noted] == ([] if after is None else [
        "shop.a: columns of shop.a were skipped here before; shop.a is re-snapshotted for that"
    ])  # fmt: skip
    if after is None:
        Mailbox(StateDir(tmp_path).store).add(A, RequestKind.SNAPSHOT)
    source.add(block(A, wide, [("+I", {"id": 4, "v": 4, "more": 4})], sequence=4))
    run_in_memory(
        source, sink, middle=Middle(routes, after or Policy(Behavior.TRY_EVOLVE), coercion), state=tmp_path,
        start=begun.offset, first_batch=begun.batches,
    )  # fmt: skip
    assert {row["id"]: row["more"] for row in sink.rows(A)} == {1: 1, 2: 2, 3: 3, 4: 4}


class FirmColumns(ListSink):
    """Adds no column to a table that is there."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, AddColumn):
                raise ChangeRefused("not in place", where=str(change.table), resnapshot_helps=True)
        super().apply(batch, changes)
