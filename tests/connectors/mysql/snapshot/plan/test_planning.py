"""The chunk plan, what schema changes mean for tables being snapshotted, and the filter of the log. No server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from together import together

from cdc.block import ChangeBlock, Stream
from cdc.errors import StateError
from cdc.events import Uncertain
from cdc.schema import (
    AddColumn,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DataType,
    DropTable,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.state.store import LocalStore
from cdc.testing import block, images
from connectors.mysql.snapshot.chunk import DONE, Begin, Chunk, Entry, LogLost, Rename, TableEnd, Watermark
from connectors.mysql.snapshot.driver_side import DriverSide
from connectors.mysql.snapshot.filter.membership import BEFORE_ALL, microseconds
from connectors.mysql.snapshot.filter.tail_filter import Regions, TailFilter, regions
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.following import Following, SequencedChange, UncertainRows
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshots
from connectors.mysql.table import MySqlColumn, MySqlTable

T, U = TableId("shop", "t"), TableId("shop", "u")
INT = DataType.parse("INT")
SCHEMA = TableSchema((Column("id", INT), Column("v", INT)), ("id",))
TABLE = MySqlTable(T, (MySqlColumn("id", "int", nullable=False), MySqlColumn("v", "int")), ("id",))


def chunk(number: int, lower: int | None, upper: int | None, **more: Any) -> Chunk:
    return Chunk(
        number, more.pop("table", T), ("id",), None if lower is None else (lower,), None if upper is None else (upper,),
        collations=(None,), last=upper is None, **more,
    )  # fmt: skip


def mark(number: int, sequence: int, *, done: bool = True) -> Watermark:
    return Watermark(number, done, sequence, "binlog.000001", sequence, 5)


PLAN: list[Entry] = [Begin(T, "initial"), chunk(1, None, 10), chunk(2, 10, 20), chunk(3, 20, None)]
MARKS = {1: mark(1, 100), 2: mark(2, 300)}


def copies_of(entries: list[Entry]) -> TableSnapshots:
    snapshots = TableSnapshots()
    for entry in entries:
        snapshots.apply(entry)
    return snapshots


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    entries: list[Entry] = [
        Begin(T, "resync", "r1", "cdc resync", keys_certain=True),
        Chunk(1, T, ("a", "b"), None, ("x\U0001f600", b"\x00\xff"), {"file": "f", "at_ms": 3}, ("c_bin", None), rows=7),
        TableEnd(U, "dropped"),
        Rename(T, U),
        LogLost(),
    ]
    ChunkPlan(LocalStore(tmp_path)).append(entries)
    again = ChunkPlan(LocalStore(tmp_path))
    assert list(again.entries(0, 5)) == entries
    assert again.requests() == {"r1"}
    assert again.chunk(1) == entries[1]
    with pytest.raises(StateError, match="entry 0 of the chunk plan is not a chunk"):
        again.chunk(0)
    with pytest.raises(StateError, match="holds 5 entries, 6 are needed"):
        again.entries(0, 6)


def test_what_a_crashed_run_planned_is_cut_off_for_readers_too(tmp_path: Path) -> None:
    writer, reader = ChunkPlan(LocalStore(tmp_path)), ChunkPlan(LocalStore(tmp_path))
    writer.append(PLAN)
    assert len(reader.snapshots(4)[T].chunks) == 3
    writer.truncate(2)
    writer.append([chunk(2, 10, None)])
    assert [c.upper for c in reader.snapshots(3)[T].chunks] == [(10,), None]
    assert reader.count() == 3


def test_a_torn_last_line_is_overlooked_and_then_cut(tmp_path: Path) -> None:
    plan = ChunkPlan(LocalStore(tmp_path))
    plan.append(PLAN[:2])
    path = tmp_path / "chunks.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "chu')
    again = ChunkPlan(LocalStore(tmp_path))
    assert again.count() == 2
    again.append(PLAN[2:3])
    assert ChunkPlan(LocalStore(tmp_path)).chunk(2) == PLAN[2]


@together("text", ["", "{}\n", '{"file":"watermarks","format":1,"generation":1}\n', "[1]\n"])
def test_another_file_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "chunks.jsonl").write_text(text)
    with pytest.raises(StateError, match="the chunk plan is damaged"):
        ChunkPlan(LocalStore(tmp_path)).count()


def test_a_damaged_entry_is_named(tmp_path: Path) -> None:
    ChunkPlan(LocalStore(tmp_path)).append(PLAN[:1])
    with (tmp_path / "chunks.jsonl").open("a") as file:
        file.write('{"kind": "pause", "table": ["a", "b"]}\n')
    with pytest.raises(StateError, match="entry 1 of the chunk plan cannot be read"):
        ChunkPlan(LocalStore(tmp_path)).count()
    Watermarks(LocalStore(tmp_path)).add([mark(1, 100)])
    with (tmp_path / "watermarks.jsonl").open("a") as file:
        file.write('{"nunber": 2}\n')
    with pytest.raises(StateError, match="entry 1 of the watermarks cannot be read"):
        Watermarks(LocalStore(tmp_path)).refresh()


def test_a_watermark_is_written_once(tmp_path: Path) -> None:
    writer, reader = Watermarks(LocalStore(tmp_path)), Watermarks(LocalStore(tmp_path))
    writer.add([mark(1, 100), mark(2, 200)])
    writer.add([mark(2, 999), mark(3, 300)])
    assert {n: m.sequence for n, m in reader.refresh().items()} == {1: 100, 2: 200, 3: 300}


def test_progress_counts_a_table_that_starts_over_from_nothing(tmp_path: Path) -> None:
    driver, plan = DriverSide(LocalStore(tmp_path), lambda: 1000.0), ChunkPlan(LocalStore(tmp_path))
    plan.append(PLAN)
    assert [(t.state, t.planned_chunks) for t in driver.progress()] == [("copying", 3)]
    plan.append([Begin(T, "resync"), chunk(5, None, None)])
    driver.store_reports([{"chunk": mark(number, 100).to_json()} for number in (1, 2, 3)])
    assert [(t.state, t.rows, t.chunks, t.planned_chunks) for t in driver.progress()] == [("copying", 0, 0, 1)]
    driver.store_reports([{"chunk": mark(5, 200).to_json()}])
    plan.append([TableEnd(T, DONE)])
    (found,) = driver.progress()
    assert (found.state, found.rows, found.estimated_rows, found.chunks) == ("done", 5, 5, 1)


def test_a_table_of_one_batch_is_seen_while_it_is_read(tmp_path: Path) -> None:
    driver, plan = DriverSide(LocalStore(tmp_path), lambda: 1000.0), ChunkPlan(LocalStore(tmp_path))
    plan.append([Begin(T, "initial")])
    assert [table.state for table in driver.progress()] == ["waiting"]
    plan.append([replace(chunk(1, None, None), last=True, table_rows=70)])
    (found,) = driver.progress()
    assert (found.state, found.rows, found.estimated_rows) == ("copying", 0, 70)
    driver.store_reports([{"chunk": mark(1, 100).to_json()}])
    assert [(table.state, table.rows) for table in driver.progress()] == [("copying", 5)]
    plan.append([TableEnd(T, DONE)])
    assert [table.state for table in driver.progress()] == ["done"]


def test_a_table_is_done_when_the_log_is_behind_its_snapshot(tmp_path: Path) -> None:
    driver, plan = DriverSide(LocalStore(tmp_path), lambda: 1000.0), ChunkPlan(LocalStore(tmp_path))
    plan.append([*PLAN, Begin(T, "resync", reason="cdc resync"), replace(chunk(5, None, None), last=True)])
    driver.store_reports([{"chunk": mark(5, 200).to_json()}])
    assert [(t.state, t.why) for t in driver.progress()] == [("copying", "cdc resync")]
    plan.append([TableEnd(T, DONE)])
    assert [(t.state, t.why) for t in driver.progress()] == [("done", "cdc resync")]


def test_a_chunk_read_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    again = chunk(4, None, 10, replaces=1)
    (snapshot,) = copies_of([*PLAN, again]).tables.values()
    assert [c.number for c in snapshot.chunks] == [4, 2, 3]
    assert snapshot.complete


def test_a_copy_is_done_when_every_chunk_is_and_finished_behind_the_last() -> None:
    snapshot = copies_of(PLAN).tables[T]
    marks = {**MARKS, 3: mark(3, 200)}
    assert not snapshot.is_done(3, marks), "chunk 3 is of this batch"
    assert snapshot.is_done(4, marks)
    assert not snapshot.is_finished(4, marks, 299)
    assert snapshot.is_finished(4, marks, 300)
    assert not snapshot.is_done(4, {**marks, 3: mark(3, 200, done=False)})


def followed(*changes: tuple[int, SchemaChange], old: MySqlTable = TABLE, new: MySqlTable = TABLE) -> list[Entry]:
    placed = [SequencedChange(sequence, change) for sequence, change in changes]
    return Following(copies_of(PLAN).tables, 3, MARKS).entries(placed, {T: old}, {T: new, U: new})


ADD = AddColumn(T, Column("x", INT))


@together(
    "changes, entries",
    [
        pytest.param(
            [(50, TruncateTable(T))], [TableEnd(T, "truncated")], id="truncated: the log has all rows from there"
        ),
        pytest.param([(50, DropTable(T)), (60, CreateTable(T, SCHEMA))], [TableEnd(T, "dropped")], id="recreated"),
        pytest.param([(50, CreateTable(U, SCHEMA))], [], id="another table"),
        pytest.param([(301, ADD)], [], id="a column after all chunks that were read"),
        pytest.param([(300, ADD)], [Begin(T, "restart")], id="a column before one"),
        pytest.param([(200, AlterTableComment(T, "x"))], [], id="a comment"),
        pytest.param([(400, RenameTable(T, U))], [Rename(T, U)], id="renamed"),
        pytest.param([(200, RenameTable(T, U))], [Rename(T, U), Begin(U, "restart")], id="renamed before a chunk"),
    ],
)
def test_schema_changes_of_a_table_that_is_being_copied(
    changes: list[tuple[int, SchemaChange]], entries: list[Entry]
) -> None:
    assert followed(*changes) == entries


GONE, OTHER_VALUES = Uncertain("rows are gone"), Uncertain("values are others", same_rows=True)


@together(
    "reasons, keys_certain",
    [((OTHER_VALUES, OTHER_VALUES), True), ((GONE, OTHER_VALUES), False), ((OTHER_VALUES, GONE), False)],
)
def test_rows_that_are_gone_are_taken_out_whatever_comes_behind_it_in_the_batch(
    reasons: tuple[Uncertain, Uncertain], keys_certain: bool
) -> None:
    changes = [SequencedChange(50 + n, UncertainRows(T, why)) for n, why in enumerate(reasons)]
    reason = "; ".join(dict.fromkeys(why.reason for why in reasons))
    found = Following({}, 0, {}).entries(changes, {T: TABLE}, {T: TABLE})
    assert found == [Begin(T, "uncertain", reason=reason, keys_certain=keys_certain)]


def test_another_type_of_the_split_column_starts_over() -> None:
    new = MySqlTable(T, (MySqlColumn("id", "bigint", nullable=False), TABLE.columns[1]), ("id",))
    assert followed((400, ADD), new=new) == [Begin(T, "restart")]
    assert followed((400, ADD), new=MySqlTable(T, TABLE.columns, ("id", "v"))) == [Begin(T, "restart")]


def test_another_key_starts_over_before_the_first_chunk_too() -> None:
    begun = copies_of([Begin(T, "uncertain", keys_certain=True)]).tables
    keyless = SequencedChange(20, AlterPrimaryKey(U, ()))
    changes = [SequencedChange(10, RenameTable(T, U)), keyless]
    new = MySqlTable(U, TABLE.columns, ())
    assert Following(begun, 1, {}).entries(changes, {T: TABLE}, {U: new}) == [Rename(T, U), Begin(U, "restart")]
    assert Following(begun, 1, {}).entries([SequencedChange(10, ADD)], {T: TABLE}, {T: TABLE}) == []


def test_a_table_that_is_copied_ends_with_its_next_change() -> None:
    marks = {**MARKS, 3: mark(3, 200)}
    following = Following(copies_of(PLAN).tables, 4, marks)
    assert following.entries([SequencedChange(500, ADD)], {T: TABLE}, {T: TABLE}) == [TableEnd(T, "done")]


def test_regions_join_neighbours_that_are_alike() -> None:
    snapshot = copies_of(PLAN).tables[T]
    never = (1 << 63) - 1
    assert regions(snapshot, 3, MARKS, 0) == Regions(((10,), (20,)), (100, 300, never))
    assert regions(snapshot, 3, MARKS, 100) == Regions(((10,), (20,)), (0, 300, never))
    assert regions(snapshot, 1, MARKS, 0) == Regions((), (never,))
    assert regions(snapshot, 4, {n: mark(n, 50) for n in (1, 2, 3)}, 60) == Regions((), (0,))


def kept(*changes: tuple[str, dict[str, int]], sequence: int) -> list[tuple[str, dict[str, Any]]]:
    found = TailFilter(copies_of(PLAN).tables, 3, MARKS, 0, {T: TABLE}, never)
    made = list(found.blocks(iter([block(T, SCHEMA, list(changes), sequence=sequence)])))
    assert images(each for each in made if Stream.LOG in each.streams) == list(changes)
    return images(each for each in made if Stream.SNAPSHOT_LOG in each.streams)


def test_changes_that_chunks_hold_or_will_hold_are_left_out() -> None:
    rows = [("+I", {"id": n, "v": 0}) for n in (5, 10, 11, 20, 21)]
    assert [row["id"] for _, row in kept(*rows, sequence=100)] == []
    assert [row["id"] for _, row in kept(*rows, sequence=101)] == [5, 10]
    assert [row["id"] for _, row in kept(*rows, sequence=300)] == [5, 10]
    assert [row["id"] for _, row in kept(*rows, sequence=301)] == [5, 10, 11, 20]


def test_halves_of_updates_become_deletes_and_inserts() -> None:
    moved = [
        ("-U", {"id": 5, "v": 1}),
        ("+U", {"id": 15, "v": 1}),
        ("-U", {"id": 15, "v": 2}),
        ("+U", {"id": 5, "v": 2}),
    ]
    assert kept(*moved, sequence=200) == [("-D", {"id": 5, "v": 1}), ("+I", {"id": 5, "v": 2})]
    assert kept(*moved, sequence=301) == moved
    stays = [("-U", {"id": 5, "v": 1}), ("+U", {"id": 5, "v": 3}), ("-D", {"id": 30, "v": 0})]
    assert kept(*stays, sequence=200) == stays[:2]


def test_other_tables_pass_as_they_are() -> None:
    found = TailFilter(copies_of(PLAN).tables, 3, MARKS, 0, {}, never)
    other: ChangeBlock = block(U, SCHEMA, [("+I", {"id": 1, "v": 1})])
    assert next(found.blocks(iter([other]))) is other


def never(statement: str) -> Any:
    raise AssertionError(f"asked the server: {statement}")


@together(
    "kind, text, number",
    [
        ("time", "-00:00:00.000001", -1),
        ("time", "838:59:59", 3_020_399_000_000),
        ("date", "1970-01-02", 86_400_000_000),
        ("datetime", "1970-01-01 00:00:01.5", 1_500_000),
        ("date", "0000-00-00", BEFORE_ALL),
        ("date", "1970-00-00", -1),
        ("date", "1970-02-31", 59 * 86_400_000_000 - 1),
    ],
)
def test_moments_as_numbers(kind: str, text: str, number: int) -> None:
    assert microseconds(kind, text) == number


@together("kind, text", [("time", "noon"), ("date", "1.1.2024"), ("datetime", "2024-01-01 noon")])
def test_other_texts_are_no_moments(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        microseconds(kind, text)
