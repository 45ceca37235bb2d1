"""Transform rules in a run: rows and schema changes after them, crashes, rules that were edited between two runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from live_source import ROWS, LiveSource
from transform_rules import text

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.errors import SpecError, TransformError
from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.state.store import LocalStore
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.testing import FailAt, ListSink, ListSource, MemoryRun, block, images, run_in_memory
from cdc.testing.local_pipeline import LocalPipeline
from cdc.transform.rule_edits import rule_changes
from cdc.transform.rules import Rules
from cdc.transform.texts import Model, OnError, RuleSettings, RuleSource, RuleTexts, UserFunction

T, U = TableId("shop", "t"), TableId("shop", "u")
INT, STRING = DataType.parse("INT"), DataType.parse("STRING")
ID, NAME, QTY = Column("id", INT, nullable=False), Column("name", STRING), Column("qty", INT)
SCHEMA = TableSchema((ID, NAME, QTY), ("id",))
CREATED = CreateTable(T, SCHEMA)
Item = SchemaChange | ChangeBlock | FailAt


def rules(*sources: tuple[str, dict[str, str]], on_error: OnError = "fail") -> Rules:
    """Rules of (tables, keys as `RuleTexts` has them)."""
    made = [
        RuleSource(f"transform[{n}]", tables, RuleTexts(**{key: text(value) for key, value in keys.items()}), on_error)
        for n, (tables, keys) in enumerate(sources)
    ]
    return Rules(made, RuleSettings())


def rows(table: TableId, schema: TableSchema, at: int, *changes: tuple[str, dict[str, Any]]) -> ChangeBlock:
    return block(table, schema, changes, sequence=at)


def run(folder: Path, items: Sequence[Item], made: Rules | None, sink: ListSink, *cuts: int) -> MemoryRun:
    """Run batches that end at these items, after those that the folder has seen; crashes are in the items."""
    source = ListSource(items)
    bounds = [numbered({"item": item}, batch) for batch, item in enumerate((0, *cuts))]
    done = len(list((folder / "commits").glob("[0-9]*.json"))) if (folder / "commits").exists() else 0
    pipeline = LocalPipeline(source, sink, folder, bounds[0], lambda: sink, Middle(rules=made))
    for number, (start, end) in enumerate(pairwise(bounds)):
        if number < done:
            pipeline.plan(start, end)
            continue
        pipeline.batch(start, end, 2, source.failures(start, end))
    return pipeline.finish(len(cuts) - done, bounds[-1])


def test_rows_and_schema_changes_go_through_the_rule_of_their_table(tmp_path: Path) -> None:
    wide = TableSchema((ID, NAME, QTY, Column("note", STRING)), ("id",))
    items: list[Item] = [
        CREATED, CreateTable(U, SCHEMA),
        rows(T, SCHEMA, 1, ("+I", {"id": 1, "name": "a", "qty": 3}), ("+I", {"id": 2, "name": "b", "qty": 30})),
        rows(U, SCHEMA, 2, ("+I", {"id": 1, "name": "u", "qty": 1})),
        AddColumn(T, Column("note", STRING)),
        rows(T, wide, 3, ("+I", {"id": 3, "name": "c", "qty": 4, "note": "n"})),
    ]  # fmt: skip
    sink = ListSink()
    made = rules(("shop.t", {"projection": r"\*, qty * 2 AS twice", "filter": "qty < 10"}))
    run(tmp_path, items, made, sink, 4, 6)
    assert sink.rows(T) == [
        {"id": 1, "name": "a", "qty": 3, "twice": 6, "note": None},
        {"id": 3, "name": "c", "qty": 4, "note": "n", "twice": 8},
    ]
    assert sink.rows(U) == [{"id": 1, "name": "u", "qty": 1}]


def test_an_update_into_and_out_of_the_filter_and_a_batch_that_it_empties(tmp_path: Path) -> None:
    items: list[Item] = [
        CREATED,
        rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 3}), ("+I", {"id": 2, "qty": 30})),
        rows(T, SCHEMA, 2, ("-U", {"id": 1, "qty": 3}), ("+U", {"id": 1, "qty": 40})),
        rows(T, SCHEMA, 3, ("-U", {"id": 2, "qty": 30}), ("+U", {"id": 2, "qty": 4})),
        rows(T, SCHEMA, 4, ("-U", {"id": 1, "qty": 40}), ("+U", {"id": 1, "qty": 41})),
    ]
    sink = ListSink()
    done = run(tmp_path, items, rules(("shop.t", {"filter": "qty < 10"})), sink, 2, 4, 5)
    assert sink.rows(T) == [{"id": 2, "name": None, "qty": 4}]
    assert (done.inserts, done.updates, done.deletes) == (2, 0, 1)


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_at_any_step_changes_nothing(tmp_path: Path, failure: FailAt) -> None:
    items: list[Item] = [
        CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 3})), failure,
        RenameColumn(T, "name", "title"), failure,
        rows(T, TableSchema((ID, Column("title", STRING), QTY), ("id",)), 2, ("+I", {"id": 2, "title": "x", "qty": 1})),
        failure,
    ]  # fmt: skip
    sink = ListSink()
    made = rules(("shop.t", {"projection": r"qty * 2 AS twice, \*"}))
    run(tmp_path, items, made, sink, 3, 5, 7)
    assert sink.rows(T) == [
        {"twice": 6, "id": 1, "title": None, "qty": 3}, {"twice": 2, "id": 2, "title": "x", "qty": 1},
    ]  # fmt: skip


def test_now_is_one_moment_of_a_batch_also_when_it_runs_again(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Noting(ListSink):
        def prepare(self, task: Any, blocks: Any) -> Any:
            found = list(blocks)
            seen.append([row["at"] for _, row in images(found)])
            return super().prepare(task, iter(found))

    items: list[Item] = [
        CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1})), rows(T, SCHEMA, 2, ("+I", {"id": 2})), FailAt.PREPARED,
    ]  # fmt: skip
    sink = Noting()
    run(tmp_path, items, rules(("shop.t", {"projection": "id, NOW() AS at"})), sink, 4)
    moments = {moment for each in seen for moment in each}
    assert len([each for each in seen if each]) == 4  # two tasks, each of them twice
    assert len(moments) == 1
    assert sink.rows(T)[0]["at"] in moments


def test_a_change_that_takes_a_named_column_away_stops_before_anything_is_applied(tmp_path: Path) -> None:
    items: list[Item] = [CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 3})), DropColumn(T, "qty")]
    sink = ListSink()
    made = rules(("shop.t", {"projection": "id, qty * 2 AS twice"}))
    with pytest.raises(TransformError, match="the source dropped the column qty, which the rule names"):
        run(tmp_path, items, made, sink, 2, 3)
    assert sink.rows(T) == [{"id": 1, "twice": 6}]
    run(tmp_path, items, rules(("shop.t", {"projection": "id"})), sink, 2, 3)  # the edited rule goes on from there
    assert sink.rows(T) == [{"id": 1}]


def test_a_table_that_is_renamed_gets_the_rule_of_its_new_name(tmp_path: Path) -> None:
    items: list[Item] = [
        CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "name": "a", "qty": 3})), RenameTable(T, U),
        rows(U, SCHEMA, 2, ("+I", {"id": 2, "name": "b", "qty": 4})),
    ]  # fmt: skip
    sink = ListSink()
    made = rules(("shop.t", {"projection": "id, qty * 2 AS twice"}), ("shop.u", {"projection": "id, name"}))
    run(tmp_path, items, made, sink, 2, 4)
    assert sink.rows(U) == [{"id": 1, "name": None}, {"id": 2, "name": "b"}]


GHOST, OLD = TableId("shop", "_t_gho"), TableId("shop", "_t_del")


@pytest.mark.parametrize("keys", [
    {"filter": "qty > 5"}, {"projection": r"\*, qty + 1 AS more"}, {"converter": "SOFT_DELETE"}, {"mask": "name"},
    {"tables": r"shop.\.*", "projection": r"\*, __table_name__ AS of"},
])  # fmt: skip
def test_rows_that_came_under_another_name_are_those_of_the_rule_of_the_new_one(
    keys: dict[str, str], tmp_path: Path
) -> None:
    texts = RuleTexts(
        **{key: text(value) for key, value in keys.items() if key not in ("mask", "tables")},
        mask={keys["mask"]: text("REDACT")} if "mask" in keys else {},
    )
    made = Rules([RuleSource("transform[0]", keys.get("tables", "shop.t"), texts, "fail")], RuleSettings())
    now = [("+I", {"id": 1, "name": "a", "qty": 3}), ("+I", {"id": 2, "name": "b", "qty": 9})]
    swap = [RenameTable(T, OLD), RenameTable(GHOST, T)]
    items = [CREATED, rows(T, SCHEMA, 1, *now), CreateTable(GHOST, SCHEMA), rows(GHOST, SCHEMA, 2, *now), *swap]
    source = LiveSource(items, {T: rows(T, SCHEMA, 5, *now), OLD: rows(OLD, SCHEMA, 5, *now)})
    whole, sink = ListSink(), ListSink()
    run_in_memory(ListSource([CREATED, rows(T, SCHEMA, 1, *now)]), whole, middle=Middle(rules=made))
    run_in_memory(source, sink, middle=Middle(rules=made), state=tmp_path, limits=None)
    assert sink.rows(T) == whole.rows(T)


def test_a_table_that_is_renamed_between_names_of_one_rule_is_not_copied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = [CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 9})), RenameTable(T, U)]
    source = LiveSource(items, {})
    same = {"filter": "qty > 5"}
    run_in_memory(source, ListSink(), middle=Middle(rules=rules(("shop.t", same), ("shop.u", same))), state=tmp_path)
    assert source.requests == {}
    source.allowed = False  # where nothing is copied, the log says what to do
    other = ListSource([*items, RenameTable(U, GHOST)])
    run_in_memory(other, ListSink(), middle=Middle(rules=rules((r"shop.[tu]", same))), state=tmp_path / "other")
    assert "shop._t_gho: it was renamed, and the rule of its new name makes other rows" in caplog.text
    assert "`cdc resync FILE shop._t_gho` re-snapshots the table" in caplog.text


def test_two_rules_of_the_same_words_make_other_rows_when_they_tell_the_name() -> None:
    for keys, same in (({"filter": "qty > 5"}, True), ({"projection": r"\*, __table_name__ AS of"}, False)):
        assert rules(("shop.t", keys), ("shop.u", keys)).same_rows(T, U, SCHEMA) is same


def test_edited_rules_change_the_table_and_leave_old_rows_without_the_new_columns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items: list[Item] = [
        CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "name": "a", "qty": 3})),
        rows(T, SCHEMA, 2, ("+I", {"id": 2, "name": "b", "qty": 4})),
        rows(T, SCHEMA, 3, ("+I", {"id": 3, "name": "c", "qty": 5})),
        rows(T, SCHEMA, 4, ("+I", {"id": 4, "name": "d", "qty": 6})),
    ]  # fmt: skip
    sink = ListSink()
    run(tmp_path, items, None, sink, 2)
    twice = rules((r"shop.\.*", {"projection": "id, name, id * 2 AS twice"}))
    run(tmp_path, items, twice, sink, 2, 3)
    assert sink.rows(T) == [{"id": 1, "name": "a", "twice": None}, {"id": 2, "name": "b", "twice": 4}]
    run(tmp_path, items, twice, sink, 2, 3, 4)
    run(tmp_path, items, None, sink, 2, 3, 4, 5)
    assert [row["qty"] for row in sink.rows(T)] == [None, None, None, 6]
    column = TableLog(LocalStore(tmp_path)).at(1).sink[T].column("twice")
    assert column.nullable
    assert [record.getMessage() for record in caplog.records if "the rules have changed" in record.getMessage()] == [
        "shop.t: the rules have changed: existing rows keep their values, without values in twice; "
        "`cdc resync FILE shop.t` re-snapshots it",
        "shop.t: the rules have changed: existing rows keep their values, without values in qty; "
        "`cdc resync FILE shop.t` re-snapshots it",
    ]


def test_a_copy_that_is_under_way_when_rules_are_edited_starts_over_with_the_new_columns(tmp_path: Path) -> None:
    now = [("+I", {"id": 1, "name": "a", "qty": 3}), ("+I", {"id": 2, "name": "b", "qty": 4})]
    copied = [replace(rows(T, SCHEMA, 3, change), streams=ROWS) for change in now]
    source, sink = (
        LiveSource([CREATED, rows(T, SCHEMA, 1, *now), on.SnapshotBegun(T), copied[0]], {}),
        ListSink(),
    )
    first = run_in_memory(source, sink, state=tmp_path, limits=None)
    source.now = {T: rows(T, SCHEMA, 9, *now)}
    source.add(copied[1], on.SnapshotDone(T))
    run_in_memory(
        source, sink, middle=Middle(rules=rules(("shop.t", {"projection": "id, name, qty + 1 AS more"}))),
        state=tmp_path, start=first.offset, first_batch=first.batches, limits=None,
    )  # fmt: skip
    assert sink.rows(T) == [{"id": 1, "name": "a", "more": 4}, {"id": 2, "name": "b", "more": 5}]


@pytest.mark.parametrize(
    ("key", "able"), [((), True), ((), False), (("id",), True)], ids=["no key", "source reads a log only", "key"]
)
def test_a_table_is_snapshotted_again_when_an_edited_rule_computes_what_its_rows_are_found_by(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: tuple[str, ...], able: bool
) -> None:
    """Its key, or without one all of its values; those that are there have none in the new column."""
    schema = TableSchema(SCHEMA.columns, key)
    first, second = {"id": 1, "name": "a", "qty": 3}, {"id": 2, "name": "b", "qty": 4}
    items = [CreateTable(T, schema), rows(T, schema, 1, ("+I", first), ("+I", second))]
    edited = Middle(rules=rules(("shop.t", {"projection": "id * 10 AS id, qty + 1 AS more"})))
    source, sink = LiveSource(items, {T: rows(T, schema, 9, ("+I", second))}), ListSink()
    source.allowed = able
    before = run_in_memory(source, sink, state=tmp_path)
    source.add(rows(T, schema, 2, ("-D", first)))
    run_in_memory(source, sink, middle=edited, state=tmp_path, start=before.offset, first_batch=before.batches)
    why = "its rule has changed, and existing rows are found by columns that it computes another way"
    assert any(why in record.getMessage() for record in caplog.records) is not able
    if able:
        assert sink.rows(T) == [{"id": 20, "more": 5}]


def test_settings_that_rules_go_by_are_compared_too() -> None:
    schema = TableSchema((ID, NAME, Column("at", DataType.parse("TIMESTAMP_LTZ(3)"))), ("id",))
    projection = (
        "own(id) AS a, HASH(name) AS b, CAST(at AS STRING) AS c, id + 1 AS d, FROM_UNIXTIME(id) AS e, m(name) AS f"
    )
    source = RuleSource("transform[0]", "shop.t", RuleTexts(projection=text(f"id, {projection}")))

    def texts(zone: str = "UTC", key: bytes = b"k" * 16, code: str = "1", prompt: str = "") -> dict[str, str]:
        own = UserFunction("own", f"def eval(a: int) -> int: return a + {code}")
        model = Model("m", "chat", "small", "http://localhost/v1", "k", prompt)
        return Rules([source], RuleSettings(zone, functions=(own,), models=(model,), hash_key=key)).texts(T, schema)

    edited: tuple[tuple[dict[str, Any], str], ...] = (
        ({"code": "2"}, "a"), ({"key": b"l" * 16}, "b"), ({"zone": "Asia/Tokyo"}, "ce"), ({"prompt": "Be short"}, "f"),
        ({}, ""),
    )  # fmt: skip
    for more, names in edited:
        edits = rule_changes(TableViews(rule_texts={T: texts()}), {T: texts(**more)}, [])
        assert [each.stale for each in edits] == ([tuple(names)] if names else [])
    nullable = AlterColumnType(T, replace(NAME, nullable=False), NAME)
    assert not [*rule_changes(TableViews(), {}, [nullable])], "the values are the same"


def test_a_mask_of_a_column_that_is_named_and_soft_deletes_are_compared_too() -> None:
    def texts(mask: str, converter: str) -> dict[str, str]:
        given = RuleTexts(text("id, name"), mask={"name": text(mask)}, converter=text(converter) if converter else None)
        return Rules([RuleSource("transform[0]", "shop.t", given)], RuleSettings()).texts(T, SCHEMA)

    before = TableViews(rule_texts={T: texts("MASK(2)", "SOFT_DELETE")})
    for mask, converter, word, stale in (
        ("REDACT", "SOFT_DELETE", "name", ("name",)),
        ("MASK(2)", "", "deleted rows", ()),
    ):
        (edit,) = rule_changes(before, {T: texts(mask, converter)}, [])
        assert (f"as the earlier rules computed {word};" in edit.text, edit.stale) == (True, stale)


@pytest.mark.parametrize(("copied", "told"), [(False, 1), (True, 0)])
def test_a_new_type_below_a_computed_column_is_told_unless_the_table_is_copied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, copied: bool, told: int
) -> None:
    type_change = AlterColumnType(T, Column("qty", DataType.parse("DECIMAL(10, 2)")), QTY)
    wider = on.event(type_change, on.Uncertain("values were converted", same_rows=True) if copied else None)
    named = AlterColumnType(T, Column("name", DataType.parse("VARCHAR(9)")), NAME)
    made = rules(("shop.t", {"projection": r"\*, qty / 2 AS half", "filter": "qty > 0"}))
    begun = [on.SnapshotBegun(T)] if copied else []
    items = [CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 3})), wider, named, *begun]
    run(tmp_path, items, made, ListSink(), 2, len(items))
    messages = [record.getMessage() for record in caplog.records if "keep what was computed" in record.getMessage()]
    assert len(messages) == told
    assert all("the type of qty from INT to DECIMAL(10, 2)" in each and "half, the filter" in each for each in messages)


def test_edited_rules_that_do_not_fit_a_table_are_refused_before_anything_is_applied(tmp_path: Path) -> None:
    items: list[Item] = [
        CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1})), rows(T, SCHEMA, 2, ("+I", {"id": 2})),
    ]  # fmt: skip
    sink = ListSink()
    run(tmp_path, items, rules(("shop.t", {"projection": "id, qty"})), sink, 2)
    with pytest.raises(SpecError, match=r"there is no column qtty .*did you mean qty"):
        run(tmp_path, items, rules(("shop.t", {"projection": "id, qtty"})), sink, 2, 3)
    assert sink.rows(T) == [{"id": 1, "qty": None}]


def test_values_that_fail_are_null_and_counted_where_the_rule_says_so(tmp_path: Path) -> None:
    items: list[Item] = [CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1, "qty": 0}), ("+I", {"id": 2, "qty": 5}))]
    sink = ListSink()
    keys = {"projection": "id, 10 / qty AS part"}
    with pytest.raises(TransformError, match=r"10 / qty.*of the row id=1"):
        run(tmp_path / "fail", items, rules(("shop.t", keys)), ListSink(), 2)
    done = run(tmp_path / "null", items, rules(("shop.t", keys), on_error="null"), sink, 2)
    assert sink.rows(T) == [{"id": 1, "part": None}, {"id": 2, "part": 2}]
    assert done.reasons == {"failed-expression-to-null shop.t.part": 1}


def test_a_column_that_is_re_snapshotted_stays_marked_behind_the_rule(tmp_path: Path) -> None:
    applied: list[SchemaChange] = []

    class Noting(ListSink):
        def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
            applied.extend(changes)
            super().apply(batch, changes)

    change = AlterColumnType(T, Column("qty", STRING), QTY)
    uncertain = on.event(change, on.Uncertain("values were converted", same_rows=True))
    made = rules(("shop.t", {"projection": r"id AS key, \*"}))
    run(tmp_path, [CREATED, uncertain, on.SnapshotBegun(T)], made, Noting(), 1, 3)
    assert replace(change, copied=True) in applied


def test_a_pipeline_without_rules_keeps_the_schemas_of_the_source_once(tmp_path: Path) -> None:
    run(tmp_path, [CREATED, rows(T, SCHEMA, 1, ("+I", {"id": 1}))], None, ListSink(), 2)
    (entry,) = map(json.loads, (tmp_path / "tables.jsonl").read_text().splitlines()[1:])
    assert (entry["source"].keys(), entry.keys() & {"rules", "rule_texts"}) == ({"shop.t"}, set())


def test_a_column_that_is_computed_another_way_and_another_filter_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The schemas are the same: only the texts of the rules tell that old rows hold something else."""
    items: list[Any] = [
        CreateTable(T, SCHEMA),
        *(rows(T, SCHEMA, n, ("+I", {"id": n, "name": "a", "qty": n})) for n in (1, 2, 3)),
    ]
    first = rules((r"shop.\.*", {"projection": r"\*, qty * 2 AS share, UPPER(name) AS upper", "filter": "id > 0"}))
    second = rules((r"shop.\.*", {"projection": r"\*, qty * 3 AS share, UPPER(name) AS upper", "filter": "id > 0"}))
    third = rules((r"shop.\.*", {"projection": r"\*, qty * 3 AS share, UPPER(name) AS upper", "filter": "id > 1"}))
    sink = ListSink()
    for made, at in ((first, (1,)), (second, (1, 2)), (second, (1, 2)), (third, (1, 2, 3))):
        run(tmp_path, items, made, sink, *at)
    told = [record.getMessage() for record in caplog.records if "the rules have changed" in record.getMessage()]
    start, end = "shop.t: the rules have changed: existing rows keep their values, ", "`cdc resync FILE shop.t`"
    assert [text.removeprefix(start).partition(f"; {end}")[0] for text in told] == [
        "as the earlier rules computed share", "those that the earlier filter rejected stay excluded",
    ]  # fmt: skip
