"""The engine's sink schemas: what a batch starts from after a crash, what tasks are given, state of older versions."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from cdc.errors import EngineError, StateError
from cdc.flow.offsets import numbered
from cdc.flow.sink_schemas import SinkSchemas
from cdc.schema import AddColumn, Column, CreateTable, DataType, DropTable, RenameTable, TableId, TableSchema
from cdc.source import Offset
from cdc.state.store import LocalStore
from cdc.testing import FailAt, ListSink, ListSource, block, run_in_memory
from cdc.testing.memory import LocalPipeline

T, U = TableId("shop", "t"), TableId("shop", "u")
ID, NOTE = Column("id", DataType.parse("INT")), Column("note", DataType.parse("STRING"))
NARROW, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, NOTE), ("id",))
CREATED, ADDED = CreateTable(T, NARROW), AddColumn(T, NOTE)


def schemas(root: Path) -> SinkSchemas:
    return SinkSchemas(LocalStore(root))


def test_each_batch_has_the_schemas_of_its_time_in_every_process(tmp_path: Path) -> None:
    driver = schemas(tmp_path)
    assert driver.at(0) == {}
    assert driver.change(0, [CREATED]) == 1
    assert driver.change(1, []) == 1
    assert driver.change(2, [ADDED, CreateTable(U, NARROW)]) == 2
    task: SinkSchemas = pickle.loads(pickle.dumps(driver))
    for known in (driver, task, schemas(tmp_path)):
        assert known.at(2) == {T: WIDE, U: NARROW}
        assert known.at(1) == {T: NARROW}
        assert known.at(9) == {T: WIDE, U: NARROW}
    driver.change(3, [DropTable(U), RenameTable(T, U)])
    assert task.at(3) == {U: WIDE}


def test_a_batch_without_a_decision_starts_from_what_it_started_from(tmp_path: Path) -> None:
    first = schemas(tmp_path)
    first.change(0, [CREATED])
    first.change(1, [ADDED])
    reader = schemas(tmp_path)
    assert reader.at(1) == {T: WIDE}
    again = schemas(tmp_path)
    again.begin(1, 1, lambda: pytest.fail("the decision says what holds"))
    assert again.at(1) == reader.at(1) == {T: NARROW}
    assert again.change(1, [AddColumn(T, Column("other", NOTE.type))]) == 2
    assert reader.at(1)[T].names == ("id", "other")


def test_state_without_schemas_learns_them_from_the_source(tmp_path: Path) -> None:
    old = schemas(tmp_path)
    old.begin(7, None, lambda: [CREATED, ADDED])
    assert old.at(7) == {T: WIDE}
    assert schemas(tmp_path).at(6) == {T: WIDE}


def test_what_does_not_fit_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    driver = schemas(tmp_path)
    with pytest.raises(EngineError, match=r"shop\.t: a schema change does not fit the table"):
        driver.change(0, [ADDED])
    assert driver.at(0) == {}
    with pytest.raises(StateError, match="the log of sink schemas holds 0 entries, 2 are needed"):
        driver.begin(1, 2, list)
    (tmp_path / "sink_schemas.jsonl").unlink(missing_ok=True)
    driver.change(0, [CREATED])
    path = tmp_path / "sink_schemas.jsonl"
    path.write_text(path.read_text().replace('"columns"', '"colums"'))
    with pytest.raises(StateError, match="an entry cannot be read"):
        schemas(tmp_path).at(0)


def test_only_changed_tables_are_written(tmp_path: Path) -> None:
    driver = schemas(tmp_path)
    driver.change(0, [CreateTable(TableId("shop", f"t{number}"), NARROW) for number in range(500)])
    before = (tmp_path / "sink_schemas.jsonl").stat().st_size
    driver.change(1, [AddColumn(TableId("shop", "t7"), NOTE)])
    assert (tmp_path / "sink_schemas.jsonl").stat().st_size - before < 400


def decided(root: Path, batch: int) -> list[int]:
    """How many entries hold: of the tables before routing, and of the sink's."""
    return json.loads((root / "commits" / f"{batch}.json").read_text())["stages"]["sink"]


def test_decisions_say_which_schemas_hold(tmp_path: Path) -> None:
    items = [CREATED, block(T, NARROW, [("+I", {"id": 1})]), ADDED, block(T, WIDE, [("+I", {"id": 2})], sequence=2)]
    sink = ListSink()
    at: list[Offset] = [numbered({"item": item}, batch) for batch, item in enumerate((0, 2, 3, 4))]
    pipeline = LocalPipeline(ListSource(items), sink, tmp_path, at[0], lambda: sink)
    for start, end in pairwise(at):
        pipeline.batch(start, end, 1, [FailAt.PREPARED])
    pipeline.finished(3, at[-1])
    assert [decided(tmp_path, batch) for batch in range(3)] == [[1, 1], [2, 2], [2, 2]]
    assert schemas(tmp_path).at(2) == {T: WIDE}
    assert sink.rows(T) == [{"id": 1, "note": None}, {"id": 2, "note": None}]


@pytest.mark.parametrize("kept_schemas", [True, False])
def test_a_state_directory_of_an_older_version_goes_on(tmp_path: Path, kept_schemas: bool) -> None:
    items = [CREATED, block(T, NARROW, [("+I", {"id": 1})]), ADDED, block(T, WIDE, [("+I", {"id": 2})], sequence=2)]
    sink, source = ListSink(), ListSource(items)
    at: list[Offset] = [numbered({"item": item}, batch) for batch, item in enumerate((0, 2, 4))]
    pipeline = LocalPipeline(source, sink, tmp_path, at[0], lambda: sink)
    pipeline.batch(at[0], at[1], 1)
    pipeline.finished(1, at[1])
    decision = json.loads((tmp_path / "commits" / "0.json").read_text())
    del decision["stages"]
    decision["schemas"] = 1 if kept_schemas else None
    (tmp_path / "commits" / "0.json").write_text(json.dumps(decision))
    (tmp_path / "routed_schemas.jsonl").unlink()
    if not kept_schemas:
        (tmp_path / "sink_schemas.jsonl").unlink()
    again = LocalPipeline(source, sink, tmp_path, at[0], lambda: sink)
    again.plan(at[0], at[1])
    again.batch(at[1], at[2], 1)
    again.finished(1, at[2])
    assert schemas(tmp_path).at(1) == {T: WIDE}
    assert decided(tmp_path, 1) == [2, 2]


def test_rows_of_other_columns_than_the_sinks_never_reach_it() -> None:
    items = [CREATED, block(T, WIDE, [("+I", {"id": 1})])]
    with pytest.raises(EngineError, match=r"shop\.t: rows with the columns id, note .* do not fit the sink's table"):
        run_in_memory(ListSource(items), ListSink())


def test_the_order_of_columns_does_not_count() -> None:
    moved = TableSchema((NOTE, ID), ("id",))
    sink = ListSink()
    run_in_memory(ListSource([CreateTable(T, WIDE), block(T, moved, [("+I", {"id": 1, "note": "a"})])]), sink)
    assert sink.rows(T) == [{"id": 1, "note": "a"}]
