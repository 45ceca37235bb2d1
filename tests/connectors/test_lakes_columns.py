"""Columns of lakes through their lives, as users of other tools have reported faults of: foreign readers judge."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from paimon_harness import PaimonHarness
from test_lakes_reports import LAKES, Change, T, commit, judging, texts

from cdc.errors import ChangeRefused
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    Position,
    RenameColumn,
    SchemaChange,
    TableSchema,
)
from cdc.testing.blocks import block
from cdc.testing.sink_conformance import VALUES

pytestmark = pytest.mark.slow


def column(name: str, kind: str = "INT", *, nullable: bool = True) -> Column:
    return Column(name, DataType.parse(kind), nullable)


def numbers(key: str, *names: str) -> TableSchema:
    return TableSchema((column(key, nullable=False), *map(column, names)), (key,))


@LAKES
def test_names_that_columns_take_from_each_other(tmp_path: Path, lake: Callable[..., Any]) -> None:
    """Readers that go by names show a dropped column's values in the one that was added later."""
    harness, batch = lake(tmp_path, {"sink.compaction": "off"}), -1

    def step(changes: list[SchemaChange], of: TableSchema, *rows: Change) -> None:
        nonlocal batch
        batch += 1
        harness.sink().apply(batch, changes)
        commit(harness, batch, of, *rows)

    first = TableSchema((column("id", nullable=False), column("a"), column("b", "VARCHAR(9)")), ("id",))
    step([CreateTable(T, first)], first, *(("+I", {"id": n, "a": n, "b": "x"}) for n in (1, 2)))
    again = numbers("id", "b", "a")
    added = AddColumn(T, column("b"), Position(after="id"))
    step([DropColumn(T, "b"), added], again, ("+U", {"id": 2, "b": 7, "a": 3}))
    swapped = numbers("id", "a", "b")
    names = [RenameColumn(T, old, new) for old, new in (("a", "t"), ("b", "a"), ("t", "b"))]
    step(names, swapped, ("+I", {"id": 3, "a": 30, "b": 31}))
    other_key = numbers("key", "a", "b")
    step([RenameColumn(T, "id", "key")], other_key, ("-D", {"key": 1, "a": None, "b": 1}))
    last = numbers("key", "a", "b", "id")
    step([AddColumn(T, column("id"))], last, ("+I", {"key": 1, "a": 1, "b": 1, "id": 9}))
    wanted = [("1", "1", "1", "9"), ("2", "7", "3", "None"), ("3", "30", "31", "None")]
    with judging(harness) as found:
        for _ in range(2):
            assert texts(found(T), *last.names) == texts(harness.rows(T), *last.names) == wanted
            harness.sink().compact(T)
        step([], last, ("-D", {"key": 2, "a": 7, "b": 3, "id": None}), ("+U", {"key": 3, "a": 0, "b": 0, "id": 0}))
        assert texts(found(T), *last.names) == [("1", "1", "1", "9"), ("3", "0", "0", "0")]


EARLY: dict[str, tuple[Any, Any]] = {
    "DATE": (date(1582, 10, 10), date(1, 1, 1)),
    "TIMESTAMP(6)": (datetime(1582, 10, 10, 1, 2, 3), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    "TIMESTAMP_LTZ(6)": (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1970, 1, 1, tzinfo=UTC)),
}
KINDS = [(kind, EARLY.get(kind, pair)) for kind, pair in VALUES if not kind.startswith("VECTOR")]


@LAKES
def test_a_key_of_every_type(tmp_path: Path, lake: Callable[..., Any]) -> None:
    """Rows are found by it, updated, deleted and verified; before and after compaction."""
    options = {"sink.compaction": "off"} | ({"sink.buckets": "3"} if lake is PaimonHarness else {})
    harness = lake(tmp_path, options)
    keys = tuple(column(f"c{at}", kind, nullable=False) for at, (kind, _) in enumerate(KINDS))
    of = TableSchema((*keys, column("v")), tuple(key.name for key in keys))
    pairs = [{key.name: pair[number] for key, (_, pair) in zip(keys, KINDS, strict=True)} for number in range(2)]
    rows = [{**pairs[0], "v": 0}, {**pairs[1], "v": 1}]
    rows += [{**pairs[0], key.name: pairs[1][key.name], "v": 2 + at} for at, key in enumerate(keys)]
    harness.sink().apply(0, [CreateTable(T, of)])
    commit(harness, 0, of, *(("+I", row) for row in rows), ("-D", rows[0]))
    written = block(T, of, [("+I", row) for row in rows]).rows
    with judging(harness) as found:
        for batch in (1, 2):
            commit(harness, batch, of, *(("+U", {**row, "v": row["v"] + 100 * batch}) for row in rows[1:]))
            wanted = sorted(str(row["v"] + 100 * batch) for row in rows[1:])
            assert sorted(str(row["v"]) for row in found(T)) == wanted
            table = harness.sink().read_back(T, of)
            by_key = table.rows(table.as_stored(written).select(list(of.primary_key)))
            assert sorted(str(value) for part in by_key for value in part.column("v").to_pylist()) == wanted
            harness.sink().compact(T)


RETYPED = (
    ("INT", "DECIMAL(10, 2)", 99_999_999, "99999999.00"),
    ("BIGINT", "DOUBLE", 2**53 + 1, "9007199254740992.0"),
    ("DECIMAL(30, 30)", "STRING", Decimal(0), "0." + "0" * 30),
    ("DECIMAL(20, 9)", "VARCHAR(40)", Decimal("-1e-9"), "-0.000000001"),
)


def test_numbers_of_rows_that_paimon_copies_are_what_servers_make_of_them(tmp_path: Path) -> None:
    """Arrow refuses INT as DECIMAL(10, 2) by its type, and writes small decimals with an exponent."""
    harness, names = PaimonHarness(tmp_path), [f"c{at}" for at in range(len(RETYPED))]
    before, after = (
        TableSchema(
            (column("id", nullable=False), *(column(name, kind) for name, kind in zip(names, kinds, strict=True))),
            ("id",),
        )
        for kinds in ([old for old, *_ in RETYPED], [new for _, new, *_ in RETYPED])
    )
    harness.sink().apply(0, [CreateTable(T, before)])
    values = {name: value for name, (_, _, value, _) in zip(names, RETYPED, strict=True)}
    commit(harness, 0, before, ("+I", {"id": 1, **values}))
    pairs = zip(before.columns[1:], after.columns[1:], strict=True)
    harness.sink().apply(1, [AlterColumnType(T, new, old) for old, new in pairs])
    assert texts(harness.rows(T), *names) == [tuple(text for *_, text in RETYPED)]


@pytest.mark.parametrize(("options", "buckets"), [({}, "1"), ({"sink.buckets": "2"}, "2")])
def test_a_paimon_table_that_gets_a_key_gets_buckets(tmp_path: Path, options: dict[str, str], buckets: str) -> None:
    harness = PaimonHarness(tmp_path, options)
    keyless = TableSchema((column("id", nullable=False), column("a")), ())
    harness.sink().apply(0, [CreateTable(T, keyless)])
    commit(harness, 0, keyless, ("+I", {"id": 1, "a": 1}))
    keyed = numbers("id", "a")
    harness.sink().apply(1, [AlterPrimaryKey(T, ("id",))])
    commit(harness, 1, keyed, ("+U", {"id": 1, "a": 7}), ("+I", {"id": 2, "a": 2}))
    assert texts(harness.rows(T), "id", "a") == [("1", "7"), ("2", "2")]
    assert harness.table(T).options["bucket"] == buckets
    harness.sink().apply(2, [AlterPrimaryKey(T, ())])
    commit(harness, 2, keyless, ("+I", {"id": 2, "a": 2}))
    assert texts(harness.rows(T), "id", "a") == [("1", "7"), ("2", "2"), ("2", "2")]


def test_values_that_paimon_cannot_convert_are_null_until_their_rows_are_copied(tmp_path: Path) -> None:
    """As the source re-snapshots the table after such a change; it stopped the pipeline."""
    harness = PaimonHarness(tmp_path)
    before = TableSchema((column("id", nullable=False), column("c", "VARCHAR(9)"), column("d", "DOUBLE")), ("id",))
    harness.sink().apply(0, [CreateTable(T, before)])
    commit(harness, 0, before, ("+I", {"id": 1, "c": "x", "d": 1.5}))
    changes = [AlterColumnType(T, column("c", "DATE"), before.columns[1], copied=True)]
    harness.sink().apply(1, changes)
    assert texts(harness.rows(T), "id", "c", "d") == [("1", "None", "1.5")]


@LAKES
def test_times_are_spelled_otherwise_than_those_of_a_merged_text(tmp_path: Path, lake: Callable[..., Any]) -> None:
    """`01:02:03.500000` is there, and would be `01:02:03.5` of the same row later."""
    harness = lake(tmp_path, {"sink.compaction": "off"})
    of = TableSchema((column("id", nullable=False), column("c", "TIME(6)")), ("id",))
    harness.sink().apply(0, [CreateTable(T, of)])
    commit(harness, 0, of, ("+I", {"id": 1, "c": timedelta(microseconds=500_000)}))
    with pytest.raises(ChangeRefused, match=r"TIME\(6\) values would not stay the same"):
        harness.sink().apply(1, [AlterColumnType(T, column("c", "STRING"), of.columns[1], keeps=True)])
