"""The log of tables: what a batch starts from after a crash, what tasks are given, and what a person may edit."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from together import together

from cdc.errors import StateError
from cdc.offsets import numbered
from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.source import Offset
from cdc.state.store import LocalStore
from cdc.tables.entry import TableViews, Try
from cdc.tables.log import TableLog
from cdc.tables.states import PairState, SinkState, TableState
from cdc.testing import FailAt, ListSink, ListSource, block
from cdc.testing.local_pipeline import LocalPipeline

T, U = TableId("shop", "t"), TableId("shop", "u")
ODD = TableId("a.b", '{"c')
ID, NOTE = Column("id", DataType.parse("INT")), Column("note", DataType.parse("STRING"))
NARROW, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, NOTE), ("id",))
CREATED, ADDED = CreateTable(T, NARROW), AddColumn(T, NOTE)


def log_of(root: Path) -> TableLog:
    return TableLog(LocalStore(root))


def lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "tables.jsonl").read_text().splitlines()[1:]]


def plain(**sink: TableSchema) -> TableViews:
    """Source tables that go to sink tables of their name."""
    tables = {TableId("shop", name): schema for name, schema in sink.items()}
    return TableViews(tables, tables, tables)


def test_each_batch_has_the_tables_of_its_time_in_every_process(tmp_path: Path) -> None:
    driver = log_of(tmp_path)
    assert driver.at(0) == TableViews()
    assert driver.write(0, plain(t=NARROW)) == 1
    assert driver.write(1, driver.at(0)) == 1
    assert driver.write(2, plain(t=WIDE, u=NARROW)) == 2
    task: TableLog = pickle.loads(pickle.dumps(driver))
    for known in (driver, task, log_of(tmp_path)):
        assert known.at(2) == known.at(9) == plain(t=WIDE, u=NARROW)
        assert known.at(1) == plain(t=NARROW)
    driver.write(3, plain(u=WIDE))
    assert task.at(3) == plain(u=WIDE)


FULL = TableViews(
    {T: WIDE, ODD: NARROW},
    {T: NARROW, ODD: NARROW},
    {U: WIDE, ODD: NARROW},
    {
        (T, U): PairState(TableState.SHADOW, 3, "cdc resync", by_user=True, ordered=True),
        (ODD, ODD): PairState(TableState.LIVE),
    },
    {U: SinkState(merged=True, shadowed=True), ODD: SinkState(stale=frozenset({T, ODD}))},
    {T: {"note": "UPPER(note)", "": "id > 0"}},
    {"rules": [{"source-table": "shop.t"}], "first_match": False},
)


@together(
    "after",
    [
        FULL,
        TableViews(),
        replace(FULL, rules=FULL.source, rule_texts={}),
        replace(FULL, source={T: NARROW}, rules={T: NARROW}, pairs={}, sinks={}),
        replace(FULL, source={T: WIDE}, rules={T: NARROW}),
        replace(FULL, routes=None),
    ],
)
def test_everything_is_read_as_it_was_written(tmp_path: Path, after: TableViews) -> None:
    driver = log_of(tmp_path)
    driver.write(0, FULL)
    driver.write(1, after)
    driver.write(2, FULL)
    assert [driver.at(batch) for batch in range(3)] == [FULL, after, FULL]


def test_a_type_that_only_the_source_tells_apart_is_written(tmp_path: Path) -> None:
    """Equal schemas: an ENUM with one more label. A shadow table that is created later is to have it."""
    driver = log_of(tmp_path)
    for batch, own in enumerate(("enum('a')", "enum('a','b')")):
        schema = TableSchema((Column("e", DataType.parse("VARCHAR(1)"), source_type=own),))
        states = {U: SinkState(shadowed=True, shadow=schema)}
        driver.write(batch, TableViews({T: schema}, {T: schema}, {U: schema}, sinks=states))
        found = log_of(tmp_path).at(batch)
        shadow = found.sinks[U].shadow
        assert shadow is not None
        assert {each.own_types for each in (found.source[T], found.rules[T], found.sink[U], shadow)} == {((own, ""),)}
    computed = TableSchema((Column("e", DataType.parse("VARCHAR(1)")),))
    driver.write(2, TableViews({T: computed}, {T: computed}))
    driver.write(3, TableViews({T: schema}, {T: computed}))
    assert log_of(tmp_path).at(3).rules[T].own_types == (("", ""),)


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    driver = log_of(tmp_path)
    many = {f"t{number}": NARROW for number in range(500)}
    driver.write(0, plain(**many))
    before = (tmp_path / "tables.jsonl").stat().st_size
    driver.write(1, plain(**many | {"t7": WIDE}))
    assert (tmp_path / "tables.jsonl").stat().st_size - before < 600
    assert "rules" not in lines(tmp_path)[-1]


def test_the_last_entry_of_a_batch_counts_whoever_reads(tmp_path: Path) -> None:
    driver = log_of(tmp_path)
    driver.write(0, plain(t=NARROW))
    driver.write(1, plain(t=WIDE, u=NARROW), Try((("create.table", U),), "a"))
    reader = log_of(tmp_path)
    assert reader.at(1) == plain(t=WIDE, u=NARROW)
    again = log_of(tmp_path)
    again.begin(1, 1)
    assert again.at(0) == plain(t=NARROW)
    assert again.tries(1) == [Try((("create.table", U),), "a")]
    assert again.write(1, plain(t=NARROW)) == 3, "as if there had been nothing"
    assert reader.at(1) == log_of(tmp_path).at(1) == plain(t=NARROW)
    assert again.tries(1)[1:] == [Try()]


def test_a_batch_that_comes_to_the_same_is_written_once(tmp_path: Path) -> None:
    wanted = Try((("create.table", T),), "a")
    for _ in range(3):
        driver = log_of(tmp_path)
        driver.begin(0, 0)
        driver.write(0, plain(t=NARROW), wanted)
    assert len(lines(tmp_path)) == 1


def test_entries_of_batches_behind_the_one_that_is_repeated_go(tmp_path: Path) -> None:
    driver = log_of(tmp_path)
    for batch in range(4):
        driver.write(batch, plain(**{f"t{batch}": NARROW}))
    driver.begin(2, 2)
    assert [entry["batch"] for entry in lines(tmp_path)] == [0, 1, 2]


def test_a_log_that_does_not_fit_the_decisions_is_refused(tmp_path: Path) -> None:
    driver = log_of(tmp_path)
    with pytest.raises(StateError, match="the log of tables holds 0 entries, 2 are needed"):
        driver.begin(1, 2)
    driver.write(3, plain(t=NARROW))
    with pytest.raises(StateError, match="there is no decision on batch 8"):
        driver.begin(9, 0)
    with pytest.raises(StateError, match="entry 0 is of batch 3, which is not decided"):
        driver.begin(2, 1)


@together(
    "edit",
    [
        lambda entry: entry["sink"]["shop.t"].pop("columns"),
        lambda entry: entry.update(sink=[]),
        lambda entry: entry.update(pairs=[["shop.t", "shop.t"]]),
        lambda entry: entry.update(pairs=[["shop.t", "shop.t", True]]),
        lambda entry: entry.update(sinks={"shop.t": "merged"}),
        lambda entry: entry.pop("batch"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named(tmp_path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    log_of(tmp_path).write(0, plain(t=NARROW))
    header, text = (tmp_path / "tables.jsonl").read_text().splitlines()
    entry = json.loads(text)
    edit(entry)
    (tmp_path / "tables.jsonl").write_text(f"{header}\n{json.dumps(entry)}\n")
    with pytest.raises(StateError, match=r"the log of tables is damaged: (the entry of batch 0|an entry has no batch)"):
        log_of(tmp_path).at(0)


def decided(root: Path, batch: int) -> int:
    """How many entries hold."""
    found: int = json.loads((root / "commits" / f"{batch}.json").read_text())["tables"]
    return found


def test_decisions_say_which_entries_hold(tmp_path: Path) -> None:
    items = [CREATED, block(T, NARROW, [("+I", {"id": 1})]), ADDED, block(T, WIDE, [("+I", {"id": 2})], sequence=2)]
    sink = ListSink()
    at: list[Offset] = [numbered({"item": item}, batch) for batch, item in enumerate((0, 2, 3, 4))]
    pipeline = LocalPipeline(ListSource(items), sink, tmp_path, at[0], lambda: sink)
    for start, end in pairwise(at):
        pipeline.batch(start, end, 1, [FailAt.PREPARED])
    pipeline.finish(3, at[-1])
    assert [decided(tmp_path, batch) for batch in range(3)] == [1, 2, 2]
    assert log_of(tmp_path).at(2).sink == {T: WIDE}
    assert sink.rows(T) == [{"id": 1, "note": None}, {"id": 2, "note": None}]
