"""What the sink writes, as Paimon's own Java library reads it: before and after its compaction, and written on.

Random histories: images of one key come in several tasks of a batch and in several flushes of a task.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness
from paimon_judge import Judge
from tiers import one_in

from cdc.block import ChangeBlock
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import TaskAttempt
from cdc.testing.blocks import Row, block
from cdc.testing.sink_conformance import VALUES
from connectors.paimon.library import identifier
from connectors.paimon.tables import live_files
from connectors.paimon.upkeep import tiers

pytestmark = pytest.mark.slow
T = TableId("shop", "orders")


def column(name: str, kind: str, default: str | None = None) -> Column:
    return Column(name, DataType.parse(kind), default=default)


@pytest.fixture
def lake(tmp_path: Path) -> PaimonHarness:
    return PaimonHarness(tmp_path, {"sink.buckets": "3"})


@pytest.fixture
def judge(lake: PaimonHarness) -> Iterator[Judge]:
    with Judge({"warehouse": lake.options.catalog_options()["warehouse"]}) as found:
        yield found


_THREE = [(number, other, text) for number in range(3) for other in range(4) for text in ("", "x", "xx")]
KEYS: dict[str, tuple[tuple[str, ...], Callable[[random.Random], Row]]] = {
    "BIGINT": (("a",), lambda chance: {"a": chance.randrange(-20, 20)}),
    "BIGINT UNSIGNED": (("a",), lambda chance: {"a": 2**64 - 1 - chance.randrange(30)}),
    "VARCHAR(9)": (("a",), lambda chance: {"a": "aä" * chance.randrange(20)}),
    "DECIMAL(30, 2)": (("a",), lambda chance: {"a": Decimal(chance.randrange(-200, 200) * 12_800).scaleb(-2)}),
    "INT": (("c", "a", "b"), lambda chance: dict(zip("cab", chance.choice(_THREE), strict=True))),
}  # fmt: skip
"""Key of a random table by the type of its column `a`: names in the order of the key, and what makes a key."""


@pytest.mark.parametrize("kind", one_in(3, [*KEYS]))
def test_a_random_history(tmp_path: Path, kind: str) -> None:
    partition = "shop.orders:day" if kind in ("INT", "VARCHAR(9)") else ""
    lake = PaimonHarness(tmp_path, {"sink.buckets": "2", "partition.key": partition, "sink.flush-size": "1 mb"})
    key, make = KEYS[kind]
    columns = [
        column("day", "VARCHAR(5)"),
        column("b", "STRING"),
        column("a", kind),
        column("c", "INT"),
        column("v", "INT"),
    ]
    schema = TableSchema(tuple(columns), key)
    chance, model, number = random.Random(f"{kind}{partition}"), dict[tuple[Any, ...], Row](), 0
    lake.sink().apply(0, [CreateTable(T, schema)])
    with Judge({"warehouse": lake.options.catalog_options()["warehouse"]}) as judge:
        for batch in range(5):
            prepared = []
            for part in range(3):
                blocks = [_changes(chance, schema, make, model, number := number + 1) for _ in range(2)]
                prepared += lake.sink().prepare(TaskAttempt(batch, part, 0, noting=[].append), iter(blocks))
            lake.sink().commit(batch, prepared)
            wanted = sorted(map(_text, model.values()), key=str)
            assert sorted(judge.rows("shop", "orders"), key=str) == wanted
            assert sorted(map(_text, lake.rows(T) or []), key=str) == wanted
            if batch in (2, 4):
                judge.compact("shop", "orders")
                assert sorted(judge.rows("shop", "orders"), key=str) == wanted
                assert sorted(map(_text, lake.rows(T) or []), key=str) == wanted


def _changes(
    chance: random.Random,
    schema: TableSchema,
    make: Callable[[random.Random], Row],
    model: dict[tuple[Any, ...], Row],
    number: int,
    steps: int = 40,
) -> ChangeBlock:
    """A block of changes, carried out on the model too: the source's rows by their key."""
    changes: list[tuple[str, Row]] = []
    for step in range(steps):
        made = {
            "day": chance.choice(["", "mon", "tue"]),
            "b": None,
            "c": None,
            "v": number * 100 + step,
            **make(chance),
        }
        row = {name: made[name] for name in schema.names}
        key = tuple(row[name] for name in schema.primary_key)
        if key not in model:
            changes.append(("+I", row))
        elif chance.random() < 0.3:
            changes.append(("-D", model.pop(key)))
            continue
        else:
            changes += [("-U", model[key]), ("+U", row)]
        model[key] = row
    return block(T, schema, changes, sequence=number)


def _text(row: Row) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


@pytest.mark.parametrize(("kind", "ratio"), one_in(2, [("INT", 2), ("VARCHAR(9)", 0)]))
def test_a_random_history_with_own_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ratio: int
) -> None:
    """Every second commit merges files, with all that are there or with none of a deeper level: deletes stay so."""
    monkeypatch.setattr(tiers, "RATIO", ratio)
    lake = PaimonHarness(tmp_path, {"sink.buckets": "2", "sink.compaction.files": "2"})
    key, make = KEYS[kind]
    columns = [column(name, kind if name == "a" else "STRING" if name in ("b", "day") else "INT") for name in COLUMNS]
    schema = TableSchema(tuple(columns), key)
    chance, model = random.Random(kind), dict[tuple[Any, ...], Row]()
    sink, levels = lake.sink(), set[int]()
    sink.apply(0, [CreateTable(T, schema)])
    with Judge({"warehouse": lake.options.catalog_options()["warehouse"]}) as judge:
        for batch in range(14):
            steps = 40 if batch % 5 == 0 else 3
            blocks = [_changes(chance, schema, make, model, batch, steps)]
            sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0, noting=[].append), iter(blocks)))
            files = [entry.file for entry in live_files(lake.catalog, lake.table(T))]
            levels |= {file.level for file in files}
            assert len(files) <= 20
            wanted = sorted(map(_text, model.values()), key=str)
            assert sorted(map(_text, lake.rows(T) or []), key=str) == wanted
            assert batch % 3 or sorted(judge.rows("shop", "orders"), key=str) == wanted
        sink.compact(T)
        assert sorted(judge.rows("shop", "orders"), key=str) == wanted
    assert levels == ({0, 5} if ratio else {0, 1, 2, 3, 4, 5})


COLUMNS = ("day", "b", "a", "c", "v")


def test_every_type(lake: PaimonHarness, judge: Judge) -> None:
    columns = tuple(Column(f"c{index}", DataType.parse(text)) for index, (text, _) in enumerate(VALUES))
    schema = TableSchema((replace(column("id", "INT"), nullable=False), *columns), ("id",))
    sink = lake.sink()
    sink.apply(0, [CreateTable(T, schema)])
    rows = [{"id": number, **{f"c{at}": pair[number] for at, (_, pair) in enumerate(VALUES)}} for number in range(2)]
    rows.append({"id": 2})
    sink.commit(
        0, sink.prepare(TaskAttempt(0, 0, 0, noting=[].append), iter([block(T, schema, [("+I", row) for row in rows])]))
    )
    found = sorted(judge.rows("shop", "orders"), key=lambda row: str(row["id"]))
    assert found[2] == {"id": "2", **dict.fromkeys((name.name for name in columns), None)}
    for row, line in zip(rows[:2], found, strict=False):
        for at, (kind, _) in enumerate(VALUES):
            assert line[f"c{at}"] == java_text(kind, row[f"c{at}"]), kind


def java_text(kind: str, value: Any) -> str:
    """As Java prints the value that the lake has."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if kind.startswith("TIME("):
        size = abs(value)
        seconds = size // _SECOND
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        text += f".{size.microseconds:06}" if size.microseconds else ""
        return ("-" if value < type(value)(0) else "") + text
    if kind.startswith("TIMESTAMP"):
        text = value.replace(tzinfo=None).isoformat()
        return text.removesuffix(":00") if text.endswith("00:00:00") else text
    if kind == "DOUBLE" and value > 1e300:
        return "1.0E308"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


_SECOND = timedelta(seconds=1)


def test_schema_changes(lake: PaimonHarness, judge: Judge) -> None:
    """Old rows read as new ones, before and after Java has compacted the files of all schemas."""
    schema = TableSchema((column("id", "INT"), column("a", "INT"), column("b", "VARCHAR(9)")), ("id",))
    run = History(lake, schema)
    run.batch([CreateTable(T, schema)], {"id": 1, "a": 1, "b": "x"})
    run.to(TableSchema((*schema.columns, column("n", "INT", "7")), ("id",)))
    run.batch([AddColumn(T, run.schema.columns[-1])], {"id": 2, "a": 2, "b": "y", "n": None})
    run.to(
        TableSchema(
            (column("id", "INT"), column("a", "BIGINT"), column("title", "VARCHAR(9)"), run.schema.columns[-1]), ("id",)
        )
    )
    changes: list[SchemaChange] = [
        AlterColumnType(T, column("a", "BIGINT"), column("a", "INT")), RenameColumn(T, "b", "title"),
    ]  # fmt: skip
    run.batch(changes, {"id": 3, "a": 2**40, "title": "z", "n": 1})
    first, second = {"id": "1", "a": "1", "title": "x", "n": "7"}, {"id": "2", "a": "2", "title": "y", "n": None}
    third = {"id": "3", "a": str(2**40), "title": "z", "n": "1"}
    assert by_id(judge) == [first, second, third]
    judge.compact("shop", "orders")
    assert by_id(judge) == [first, second, third]
    run.to(TableSchema((column("id", "BIGINT"), column("a", "BIGINT"), run.schema.columns[-1]), ("id",)))
    run.batch(
        [DropColumn(T, "title"), AlterColumnType(T, column("id", "BIGINT"), column("id", "INT"))],
        {"id": 2**40, "a": 4, "n": 4}, {"id": 2, "a": 5, "n": 5},
    )  # fmt: skip
    assert by_id(judge) == [
        {"id": "1", "a": "1", "n": "7"}, {"id": str(2**40), "a": "4", "n": "4"}, {"id": "2", "a": "5", "n": "5"},
        {"id": "3", "a": str(2**40), "n": "1"},
    ]  # fmt: skip
    run.to(replace(run.schema, primary_key=("a",)))
    run.batch([AlterPrimaryKey(T, ("a",))], {"id": 9, "a": 5, "n": 9})
    assert {row["id"] for row in by_id(judge)} == {"1", str(2**40), "9", "3"}
    run.batch([TruncateTable(T)], {"id": 1, "a": 1, "n": 1})
    assert by_id(judge) == [{"id": "1", "a": "1", "n": "1"}]


def test_a_copy_takes_the_place_of_its_table(lake: PaimonHarness, judge: Judge) -> None:
    """In one snapshot; later rows win over copied ones."""
    schema = TableSchema((column("id", "INT"), column("a", "INT")), ("id",))
    run = History(lake, schema)
    run.batch([CreateTable(T, schema)], *({"id": number, "a": 0} for number in range(50)))
    shadow = lake.sink().shadow(T)
    run.batch([CreateShadow(T)], *({"id": number, "a": 1} for number in range(10, 40)), table=shadow)
    assert len(by_id(judge)) == 50
    before = lake.table(T).library.snapshot_manager().get_latest_snapshot().id
    run.batch([SwapShadow(T)])
    assert lake.table(T).library.snapshot_manager().get_latest_snapshot().id == before + 1
    run.batch([], {"id": 10, "a": 2}, {"id": 99, "a": 2})
    wanted = sorted(["10 2", "99 2", *(f"{number} 1" for number in range(11, 40))])
    assert sorted(f"{row['id']} {row['a']}" for row in by_id(judge)) == wanted
    judge.compact("shop", "orders")
    assert sorted(f"{row['id']} {row['a']}" for row in by_id(judge)) == wanted


def test_a_table_that_was_recreated_keeps_the_name_that_it_is_given_later(lake: PaimonHarness, judge: Judge) -> None:
    """Also one whose mark a crash has left, and beside a new table of the former name."""
    other = TableId("shop", "other")
    schema = TableSchema((column("id", "INT"), column("n", "INT")), ("id",))
    run = History(lake, schema)
    run.batch([CreateTable(T, schema)], {"id": 1, "n": 1})
    run.to(TableSchema((column("id", "BIGINT"), column("n", "INT")), ("id",)))
    run.batch([AlterColumnType(T, column("id", "BIGINT"), column("id", "INT"))], {"id": 2**40, "n": 2})
    run.batch([RenameTable(T, other)])
    run.to(TableSchema((column("id", "BIGINT"), column("n", "BIGINT")), ("id",)))
    run.batch([AlterColumnType(other, column("n", "BIGINT"), column("n", "INT"))], {"id": 3, "n": 2**40}, table=other)
    assert {row["id"] for row in judge.rows("shop", "other")} == {"1", str(2**40), "3"}
    lake.catalog.open().alter_table(identifier(other), [_library_change().set_option("cdc.swap", str(T))], False)
    run.batch([DropColumn(other, "n")])
    run.batch([CreateTable(T, run.schema)], {"id": 7, "n": 7})
    assert {row["id"] for row in judge.rows("shop", "other")} == {"1", str(2**40), "3"}
    assert [row["id"] for row in by_id(judge)] == ["7"]


def _library_change() -> Any:
    from pypaimon.schema.schema_change import SchemaChange

    return SchemaChange


class History:
    """Batches of upserts."""

    def __init__(self, lake: PaimonHarness, schema: TableSchema) -> None:
        self._lake, self._batch, self.schema = lake, -1, schema

    def to(self, schema: TableSchema) -> None:
        self.schema = schema

    def batch(self, changes: list[SchemaChange], *rows: Row, table: TableId = T) -> None:
        self._batch += 1
        sink = self._lake.sink()
        sink.apply(self._batch, changes)
        given = [block(table, self.schema, [("+I", row) for row in rows])] if rows else []
        sink.commit(self._batch, sink.prepare(TaskAttempt(self._batch, 0, 0, noting=[].append), iter(given)))


def by_id(judge: Judge) -> list[dict[str, Any]]:
    return sorted(judge.rows("shop", "orders"), key=lambda row: str(row["id"]))
