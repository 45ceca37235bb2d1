"""Catalogs of Paimon other than folders: a table's life in a catalog that a database or a server keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import Killed, PaimonHarness, killed_at, rest_options
from paimon_judge import Judge
from sink_calls import commit, created

from cdc.errors import ChangeRefused
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
    shadow_of,
)
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from connectors.paimon.options import PaimonSinkOptions

T, NEW = TableId("shop", "orders"), TableId("shop", "sales")
ID, N = Column("id", DataType.parse("INT"), nullable=False), Column("n", DataType.parse("INT"), default="7")
SMALL, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, N), ("id",))


def test_the_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    address = "jdbc:mysql://user:hidden@db.example:3306/paimon?password=hidden"
    lake = PaimonHarness(
        tmp_path, {"catalog.properties.metastore": "jdbc", "catalog.properties.uri": address}
    )  # fmt: skip
    for text in (lake.catalog.place, *lake.options.locations()):
        assert "hidden" not in text
        assert "jdbc:mysql://db.example:3306/paimon" in text


@pytest.mark.parametrize("missing", ["warehouse", "uri", "token.provider"])
def test_what_a_rest_catalog_needs_is_asked_for(missing: str) -> None:
    given = {name: text for name, text in rest_options("http://host").items() if not name.endswith(missing)}
    found = PaimonSinkOptions.model_validate({"type": "paimon", **given})
    assert [remark.key for remark in found.problems()] == [f"catalog.properties.{missing}"]


@pytest.fixture(params=["jdbc", "rest", "rest-loses-answers"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PaimonHarness]:
    if request.param == "jdbc":
        address = f"jdbc:sqlite:{tmp_path}/catalog.db"
        yield PaimonHarness(
            tmp_path, {"catalog.properties.metastore": "jdbc", "catalog.properties.uri": address}
        )  # fmt: skip
        return
    from paimon_rest import rest_catalog  # it loads half of pypaimon

    with rest_catalog(tmp_path / "lake") as (catalog, address):
        catalog.loses_answers = request.param == "rest-loses-answers"
        yield PaimonHarness(
            tmp_path,
            {**rest_options(address), "retry-timeout": "30s"},
        )  # fmt: skip


@pytest.mark.slow
def test_a_life_in_a_catalog(lake: PaimonHarness, tmp_path: Path) -> None:
    sink = lake.sink()
    sink.check()

    def rows(batch: int, table: TableId, schema: TableSchema, *changes: tuple[str, dict[str, int]]) -> None:
        blocks = iter([block(table, schema, list(changes))])
        sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0, noting=[].append), blocks))

    sink.apply(0, [CreateTable(T, SMALL)])
    rows(0, T, SMALL, ("+I", {"id": 1}), ("+I", {"id": 2}))
    sink.apply(1, [AddColumn(T, N)])
    rows(1, T, WIDE, ("-D", {"id": 2, "n": 7}), ("+I", {"id": 3, "n": 3}))
    assert sorted((row["id"], row["n"]) for row in lake.rows(T) or []) == [(1, 7), (3, 3)]
    sink.apply(2, [CreateShadow(T)])
    rows(2, sink.shadow(T), WIDE, ("+I", {"id": 5, "n": 5}))
    sink.apply(3, [SwapShadow(T)])
    sink.apply(4, [RenameTable(T, NEW)])
    rows(4, NEW, WIDE, ("+I", {"id": 6, "n": 6}))
    sink.compact(NEW)
    with Judge({"warehouse": str(tmp_path / "lake")}) as judge:
        assert sorted(row["id"] for row in judge.rows("shop", "sales")) == ["5", "6"]
    sink.apply(5, [TruncateTable(NEW)])
    assert lake.rows(NEW) == []
    sink.apply(6, [DropTable(NEW)])
    assert lake.rows(NEW) is None


@pytest.mark.parametrize("metastore", ["filesystem", "jdbc"])
def test_a_table_whose_drop_was_interrupted_anywhere_is_dropped_again_and_a_new_one_is_empty(
    tmp_path: Path, metastore: str
) -> None:
    """Its schema went first, by chance of the folder's order; the new table had the old rows, or could not be read."""
    names = {"metastore": metastore, "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    lake = PaimonHarness(tmp_path, {f"catalog.properties.{name}": text for name, text in names.items()})
    for number in range(1, 100):
        sink = created(lake.sink(), T, SMALL)
        assert lake.rows(T) == []
        commit(sink, number, block(T, SMALL, [("+I", {"id": number})]), noting=[].append)
        try:
            with killed_at(number):
                sink.apply(1, [DropTable(T)])
        except Killed:
            lake.sink().apply(1, [DropTable(T)])
        else:
            break
    assert number > 8
    folder = tmp_path / "lake" / "shop.db" / "orders"
    (folder / "snapshot").mkdir(parents=True)
    with pytest.raises(ChangeRefused, match=r"holds files, but the catalog has no such table: snapshot"):
        created(lake.sink(), T, SMALL)


@pytest.mark.parametrize("metastore", ["filesystem", "jdbc"])
def test_a_table_whose_creation_was_interrupted_is_created(tmp_path: Path, metastore: str) -> None:
    """Its folder had a schema that was not finished, and was taken for that of another program."""
    from pypaimon.filesystem.local_file_io import LocalFileIO

    names = {"metastore": metastore, "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    lake = PaimonHarness(tmp_path, {f"catalog.properties.{name}": text for name, text in names.items()})
    lake.sink().check()
    folder = tmp_path / "lake" / "shop.db" / "orders"
    renaming = patch.object(LocalFileIO, "rename", side_effect=Killed)
    with pytest.raises(Killed), patch.object(LocalFileIO, "delete_quietly"), renaming:
        lake.sink().apply(0, [CreateTable(T, SMALL)])
    assert [path.suffix for path in (folder / "schema").iterdir()] == [".tmp"]
    lake.sink().apply(0, [CreateTable(T, SMALL)])
    assert lake.rows(T) == []


ELSEWHERE = TableId("elsewhere", "orders")
_TEXT = Column("id", DataType.parse("VARCHAR(20)"), nullable=False)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (SwapShadow(T), T),
        (RenameTable(T, ELSEWHERE), ELSEWHERE),
        (AlterColumnType(T, _TEXT, ID), T),
    ],
    ids=["swap", "move", "rebuild"],
)
def test_rows_are_there_when_the_drop_of_the_table_that_they_were_copied_from_was_interrupted(
    tmp_path: Path, change: SchemaChange, where: TableId
) -> None:
    """They were copied once more, from a table that had lost them by then."""
    lake = PaimonHarness(tmp_path)
    for number in range(3, 100, 4):
        sink = created(lake.sink(), T, SMALL)
        sink.apply(1, [CreateShadow(T)])
        target = sink.shadow(T) if isinstance(change, SwapShadow) else T
        commit(sink, 2 * number, block(target, SMALL, [("+I", {"id": 7})]), noting=[].append)
        if target == T:
            sink.apply(1, [DropShadow(T)])
        try:
            with killed_at(number):
                sink.apply(2, [change])
            ended = True
        except Killed:
            lake.sink().apply(2, [change])
            ended = False
        assert [int(row["id"]) for row in lake.rows(where) or []] == [7], f"killed at deletion {number}"
        others = [table for table in (T, ELSEWHERE, shadow_of(T)) if table != where]
        assert [lake.catalog.stored(table) for table in others] == [None] * len(others)
        lake.sink().apply(3, [DropTable(where)])
        if ended:
            break
    assert number > 8
