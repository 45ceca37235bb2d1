"""Pipelines in this process: what each behavior leaves in the sink, and what several tables in one come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from together import together

from cdc import events as on
from cdc.block import ChangeBlock, Stream
from cdc.errors import ChangeRefused, SinkError
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.spec.model import RouteRule
from cdc.tables.events import SnapshotRequested, TableCreated
from cdc.tables.machine import batch_outcome
from cdc.tables.states import Tables
from cdc.tables.table_map import Circumstances
from cdc.testing import FailAt, ListSink, ListSource, MemoryRun, block, run_in_memory

T = TableId("shop", "members")
INT, DOUBLE, TINYINT, TEXT, BIGINT = (DataType.parse(text) for text in ("INT", "DOUBLE", "TINYINT", "STRING", "BIGINT"))


def columns(**types: DataType) -> TableSchema:
    return TableSchema(tuple(Column(name, data_type, name != "id") for name, data_type in types.items()), ("id",))


MEMBERS = columns(id=INT, name=TEXT, age=INT)


def script(table: TableId = T) -> list[Any]:
    """The walk-through of docs/schema-evolution.md."""
    with_gender = columns(id=INT, name=TEXT, age=INT, gender=TINYINT)
    last = columns(id=INT, name=TEXT, precise_age=DOUBLE)
    return [
        CreateTable(table, MEMBERS),
        block(table, MEMBERS, [("+I", {"id": 1008, "name": "Alice", "age": 21})], sequence=1),
        AddColumn(table, Column("gender", TINYINT), Position(after="age")),
        block(table, with_gender, [("+I", {"id": 1012, "name": "Eve", "age": 17, "gender": 0})], sequence=2),
        AlterColumnType(table, Column("age", DOUBLE), Column("age", INT)),
        RenameColumn(table, "age", "precise_age"),
        RenameColumn(table, "gender", "sex"),
        DropColumn(table, "sex"),
        block(table, last, [("+I", {"id": 1013, "name": "Fiona", "precise_age": 16.0})], sequence=3),
        TruncateTable(table),
        block(table, last, [("+I", {"id": 1014, "name": "Gem", "precise_age": 17.0})], sequence=4),
        DropTable(table),
    ]


def rule(source: str, sink: str, shard: str | None = None) -> RouteRule:
    return RouteRule(source_table=source, sink_table=sink, shard_column=shard)


def routing(behavior: str, *rules: RouteRule, exclude: tuple[str, ...] | None = None, lost: str = "fail") -> Middle:
    return Middle(RouteTable(rules), Policy(Behavior(behavior), exclude=exclude), Coercion(lost))


def run(items: list[Any], sink: ListSink, how: Middle, state: Path | None = None) -> MemoryRun:
    return run_in_memory(ListSource(items), sink, middle=how, state=state)


def rows(sink: ListSink, table: TableId = T) -> list[list[Any]]:
    return [list(row.values()) for row in sink.rows(table)]


def test_evolve_mirrors_the_source() -> None:
    sink = ListSink()
    run(script()[:-1], sink, routing("evolve"))
    assert sink.rows(T) == [{"id": 1014, "name": "Gem", "precise_age": 17.0}]


@pytest.mark.parametrize("sink_table", [T, TableId("ods", "people")])
def test_lenient_loses_nothing(sink_table: TableId) -> None:
    sink, rules = ListSink(), [rule(str(T), str(sink_table))]
    done = run(script(), sink, routing("lenient", *rules))
    assert list(sink.rows(sink_table)[0]) == ["id", "name", "age", "gender", "precise_age", "sex"]
    assert rows(sink, sink_table) == [
        [1008, "Alice", 21, None, None, None],
        [1012, "Eve", 17, 0, None, None],
        [1013, "Fiona", None, None, 16.0, None],
        [1014, "Gem", None, None, 17.0, None],
    ]
    held = {"rename.column": 2, "drop.column": 1, "truncate.table": 1, "drop.table": 1}
    assert dict(done.reasons) == {f"held-back {name} {sink_table}": number for name, number in held.items()}


def test_evolve_without_drops() -> None:
    sink = ListSink()
    run(script()[:9], sink, routing("evolve", exclude=("drop",)))
    assert rows(sink)[1:] == [[1012, "Eve", 17, 0], [1013, "Fiona", 16.0, None]]
    assert list(sink.rows(T)[0]) == ["id", "name", "precise_age", "sex"]


def test_ignore_keeps_the_table_as_it_was() -> None:
    sink = ListSink()
    done = run(script(), sink, routing("ignore"))
    assert rows(sink) == [[1008, "Alice", 21], [1012, "Eve", 17], [1013, "Fiona", None], [1014, "Gem", None]]
    assert done.reasons[f"no-column-in-sink {T}.gender"] == 1
    assert done.reasons[f"no-column-in-sink {T}.precise_age"] == 2


def test_exception_stops_at_the_first_change() -> None:
    sink = ListSink()
    with pytest.raises(
        ChangeRefused, match=r"shop\.members: the source or an edited rule changed the table \(add\.column gender"
    ):
        run(script(), sink, routing("exception"))


class Stubborn(ListSink):
    """Takes no change of columns."""

    def apply(self, batch: int, changes: Any) -> None:
        for change in changes:
            if not isinstance(change, CreateTable | TruncateTable | DropTable):
                raise ChangeRefused("the sink does not do that", where=str(change.table))
        super().apply(batch, changes)


def test_try_evolve_goes_on_without_what_the_sink_refuses(tmp_path: Path) -> None:
    sink = Stubborn()
    done = run(script()[:9], sink, routing("try_evolve"), tmp_path)
    assert rows(sink) == [[1008, "Alice", 21], [1012, "Eve", 17], [1013, "Fiona", None]]
    assert done.reasons[f"refused-by-sink add.column {T}"] == 1


def test_try_evolve_is_evolve_where_the_sink_takes_everything() -> None:
    sink = ListSink()
    run(script()[:-1], sink, routing("try_evolve"))
    assert sink.rows(T) == [{"id": 1014, "name": "Gem", "precise_age": 17.0}]


A, B, ALL = TableId("shop_1", "t"), TableId("shop_2", "t"), TableId("ods", "t")
NARROW, WIDE = columns(id=INT, a=INT), columns(id=BIGINT, b=TEXT, a=DOUBLE)
MERGE = rule(r"shop_\d.t", "ods.t")


def merging(*more: Any) -> list[Any]:
    return [
        CreateTable(A, NARROW),
        CreateTable(B, WIDE),
        block(A, NARROW, [("+I", {"id": 1, "a": 10})], sequence=1),
        block(B, WIDE, [("+I", {"id": 2, "b": "x", "a": 0.5})], sequence=2),
        *more,
    ]


@together("behavior", ["evolve", "lenient", "ignore", "exception", "try_evolve"])
def test_several_tables_become_one_that_holds_the_rows_of_all(behavior: str) -> None:
    sink = ListSink()
    run(merging(), sink, routing(behavior, MERGE))
    assert sink.rows(ALL) == [{"id": 1, "a": 10.0, "b": None}, {"id": 2, "a": 0.5, "b": "x"}]


def test_a_merged_table_follows_the_changes_of_each_and_loses_nothing() -> None:
    sink, renamed = ListSink(), columns(id=INT, c=INT)
    later = merging(
        RenameColumn(A, "a", "c"),
        block(A, renamed, [("+I", {"id": 3, "c": 30})], sequence=3),
        DropColumn(B, "b"),
        TruncateTable(B),
        DropTable(B),
    )
    done = run(later, sink, routing("evolve", MERGE))
    assert [list(row.values()) for row in sink.rows(ALL)] == [
        [1, 10.0, None, None], [2, 0.5, "x", None], [3, None, None, 30],
    ]  # fmt: skip
    assert {reason.split()[1] for reason in done.reasons} == {
        "rename.column", "drop.column", "truncate.table", "drop.table",
    }  # fmt: skip


def test_the_last_of_several_tables_does_not_take_the_sinks_table_with_it() -> None:
    sink = ListSink()
    run(merging(DropTable(A), DropTable(B)), sink, routing("evolve", MERGE))
    assert len(sink.rows(ALL)) == 2


def test_a_table_that_comes_later_widens_the_sinks(tmp_path: Path) -> None:
    sink = ListSink()
    items = merging()
    later = [items[0], items[2], items[1], items[3]]
    run(later, sink, routing("evolve", MERGE), tmp_path)
    assert sink.rows(ALL) == [{"id": 1, "a": 10, "b": None}, {"id": 2, "a": 0.5, "b": "x"}]


def test_a_shard_column_tells_equal_keys_apart() -> None:
    sink = ListSink()
    same = block(B, WIDE, [("+I", {"id": 1, "b": "y", "a": 2.0})], sequence=3)
    run(merging(same), sink, routing("evolve", rule(r"shop_\d.t", "ods.t", "origin")))
    assert [(row["id"], row["origin"]) for row in sink.rows(ALL)] == [(1, "shop_1.t"), (2, "shop_2.t"), (1, "shop_2.t")]


def test_tables_without_a_key_are_appended_to_one_another() -> None:
    sink, plain = ListSink(), TableSchema((Column("v", INT),))
    items = [CreateTable(A, plain), CreateTable(B, plain)]
    items += [block(table, plain, [("+I", {"v": 1})], sequence=number) for number, table in enumerate((A, B, A))]
    run([*items, block(B, plain, [("-D", {"v": 1})], sequence=9)], sink, routing("evolve", MERGE))
    assert sink.rows(ALL) == [{"v": 1}, {"v": 1}]


def test_equal_keys_of_several_tables_are_written_in_log_order() -> None:
    """A source hands out a batch table by table; the row that was written last in its log counts."""

    def at(sequence: list[int], made: ChangeBlock) -> ChangeBlock:
        return replace(made, sequence=pa.array(sequence, pa.int64()))

    sink, one = ListSink(), {"id": 1, "a": 1}
    items = [
        CreateTable(A, NARROW),
        CreateTable(B, NARROW),
        at([1, 7, 7], block(A, NARROW, [("+I", one), ("-U", one), ("+U", {"id": 1, "a": 4})])),
        at([3, 5], block(B, NARROW, [("+I", {"id": 1, "a": 2}), ("-D", {"id": 1, "a": 2})])),
    ]
    run(items, sink, routing("evolve", MERGE))
    assert sink.rows(ALL) == [{"id": 1, "a": 4}]


def test_one_table_may_go_to_several() -> None:
    sink = ListSink()
    run(script()[:9], sink, routing("evolve", rule(str(T), "a.x"), rule(str(T), "b.y")))
    assert sink.rows(TableId("a", "x")) == sink.rows(TableId("b", "y")) != []


def test_tables_of_different_keys_are_not_merged() -> None:
    other = TableSchema(WIDE.columns, ("id", "a"))
    with pytest.raises(ChangeRefused, match=r"ods\.t: shop_2\.t has \(id, a\), the sink's table has \(id\), as shop_1"):
        run([CreateTable(A, NARROW), CreateTable(B, other)], ListSink(), routing("evolve", MERGE))


def test_a_value_that_the_sink_cannot_hold_stops_or_is_counted() -> None:
    big = 2**53 + 1
    narrow, wide = columns(id=INT, a=DOUBLE), columns(id=INT, a=BIGINT)
    items = [
        CreateTable(A, narrow),
        CreateTable(B, wide),
        block(
            B, wide, [("+I", {"id": number, "a": big if number == 3 else number}) for number in range(5)], sequence=1
        ),
    ]
    with pytest.raises(SinkError, match=rf"ods\.t\.a 1: {big} of BIGINT does not fit .* DOUBLE \(row with id=3\)"):
        run(items, ListSink(), routing("evolve", MERGE))
    sink = ListSink()
    done = run(items, sink, routing("lenient", MERGE, lost="null"))
    assert [row["a"] for row in sink.rows(ALL)] == [0.0, 1.0, 2.0, None, 4.0]
    assert done.reasons["does-not-fit-to-null ods.t.a"] == 1


@pytest.mark.parametrize("failure", list(FailAt))
@pytest.mark.parametrize("behavior", ["lenient", "try_evolve"])
def test_a_crash_at_any_step_changes_nothing(failure: FailAt, behavior: str, tmp_path: Path) -> None:
    calm, crashing = ListSink(), ListSink()
    how = routing(behavior, MERGE, rule(str(T), "ods.members"))
    items: list[Any] = [*merging(), *script()[:-1]]
    run(items, calm, how)
    crashed = [part for item in items for part in ((failure, item) if isinstance(item, SchemaChange) else (item,))]
    run(crashed, crashing, how, tmp_path)
    for table in (ALL, TableId("ods", "members")):
        assert crashing.rows(table) == calm.rows(table)


def copying(table: TableId, schema: TableSchema, *, key: str = "id") -> list[Any]:
    """Rows 1 and 2, and a copy of the table in which 2 is gone and 3 is new; meanwhile the log has row 4."""
    first = block(table, schema, [("+I", {key: 1}), ("+I", {key: 2})], sequence=10)
    read = frozenset({Stream.SNAPSHOT_ROWS})
    copied = replace(block(table, schema, [("+I", {key: 1}), ("+I", {key: 3})], sequence=12), streams=read)
    logged = replace(block(table, schema, [("+I", {key: 4})], sequence=11), streams=frozenset({Stream.LOG}))
    return [CreateTable(table, schema), first, on.SnapshotBegun(table), logged, copied, on.SnapshotDone(table)]


@together(
    "behavior, exclude, left",
    [("lenient", None, [1, 2, 3, 4]), ("ignore", None, [1, 2, 3, 4]), ("evolve", ("truncate",), [1, 2, 3, 4]),
     ("evolve", None, [1, 3]), ("lenient", (), [1, 3])],
)  # fmt: skip
def test_a_copy_replaces_the_table_only_where_rows_may_go(
    behavior: str, exclude: tuple[str, ...] | None, left: list[int]
) -> None:
    sink = ListSink()
    run(copying(T, columns(id=INT)), sink, routing(behavior, exclude=exclude))
    assert sorted(row["id"] for row in sink.rows(T)) == left


def test_a_copy_of_one_of_several_tables_leaves_the_rows_of_the_others() -> None:
    sink, small = ListSink(), columns(id=INT)
    other = [CreateTable(B, small), block(B, small, [("+I", {"id": 9})], sequence=1)]
    done = run([*other, *copying(A, small)], sink, routing("evolve", MERGE))
    assert sorted(row["id"] for row in sink.rows(ALL)) == [1, 2, 3, 4, 9]
    assert done.reasons["held-back snapshot.overwrites ods.t"] == 1


@pytest.mark.parametrize("by_user", [True, False])
def test_a_re_snapshot_that_a_user_wants_holds_nothing_back(*, by_user: bool) -> None:
    """Rows that are gone stay under the behavior that the user has chosen: no notification is due for that."""
    events = [
        TableCreated(T, CreateTable(T, columns(id=INT))),
        SnapshotRequested(T) if by_user else on.RowsUncertain(T, on.Uncertain("rows came in")),
        on.SnapshotBegun(T),
    ]
    outcome = batch_outcome(Circumstances(RouteTable(), Policy(Behavior.LENIENT)), Tables(), events)
    assert [(notice.name, notice.done) for notice in outcome.notices] == [("snapshot.overwrites", by_user)]


def test_one_of_several_tables_without_a_key_is_not_copied() -> None:
    plain = TableSchema((Column("v", INT),))
    with pytest.raises(ChangeRefused, match="its rows cannot be told from those of other tables"):
        run([CreateTable(B, plain), *copying(A, plain, key="v")], ListSink(), routing("evolve", MERGE))


@pytest.mark.parametrize("rules", [[], [rule(r"shop.\.*", "ods.all")]])
def test_what_is_said_about_new_tables_goes_with_them(rules: list[RouteRule]) -> None:
    told = (("replication_num", "3"),)
    created = [CreateTable(T, MEMBERS, told, ("id",)), CreateTable(TableId("shop", "wide"), columns(id=BIGINT), told)]
    now = Circumstances(RouteTable(rules), Policy(Behavior.EVOLVE))
    after = batch_outcome(now, Tables(), [TableCreated(change.table, change) for change in created]).operations
    assert all(isinstance(change, CreateTable) and change.options == told for change in after)
    assert after[0] == replace(after[0], partition_keys=("id",))
