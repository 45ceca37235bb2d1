"""Every source passes the same named behaviours."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc.block import ChangeBlock
from cdc.schema import AddColumn, Column, CreateTable, DataType, Kind, SchemaChange, TableId, TableSchema
from cdc.schema_json import change_to_json
from cdc.source import Context
from cdc.testing import ListSource, SourceConformance, block
from connectors.values.options import ValuesSourceOptions
from connectors.values.source import ValuesSource

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.BIGINT), nullable=False), Column("name", DataType(Kind.VARCHAR, 64))), ("id",)
)


class ListHarness:
    table = TABLE

    def __init__(self) -> None:
        self._items: list[SchemaChange | ChangeBlock] = []
        self._schema = SCHEMA

    def source(self) -> ListSource:
        return ListSource(self._items)

    def create(self) -> None:
        self._items.append(CreateTable(TABLE, SCHEMA))

    def insert(self, *rows: tuple[int, str | None]) -> None:
        self._write([("+I", {"id": id_, "name": name}) for id_, name in rows])

    def update(self, id_: int, old: str, new: str) -> None:
        self._write([("-U", {"id": id_, "name": old}), ("+U", {"id": id_, "name": new})])

    def delete(self, id_: int, old: str) -> None:
        self._write([("-D", {"id": id_, "name": old})])

    def add_column(self, name: str) -> None:
        column = Column(name, DataType(Kind.STRING))
        self._schema = TableSchema((*self._schema.columns, column), ("id",))
        self._items.append(AddColumn(TABLE, column))

    def _write(self, changes: Sequence[tuple[str, dict[str, Any]]]) -> None:
        self._items.append(block(TABLE, self._schema, changes, sequence=len(self._items)))


class ValuesHarness(ListHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / "log.jsonl"
        self._path.touch()

    def source(self) -> ValuesSource:  # type: ignore[override]
        options = ValuesSourceOptions(type="values", path=str(self._path))
        return ValuesSource(options, Context("pipeline-1", self._folder))

    def create(self) -> None:
        self._append(change_to_json(CreateTable(TABLE, SCHEMA)))

    def add_column(self, name: str) -> None:
        self._append(change_to_json(AddColumn(TABLE, Column(name, DataType(Kind.STRING)))))

    def _write(self, changes: Sequence[tuple[str, dict[str, Any]]]) -> None:
        rows = [{"op": symbol, "table": str(TABLE), "row": row} for symbol, row in changes]
        self._append(*rows, {"commit": True})

    def _append(self, *lines: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


class TestListSource(SourceConformance):
    @pytest.fixture
    def harness(self) -> ListHarness:
        return ListHarness()


class TestValuesSource(SourceConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> ValuesHarness:
        return ValuesHarness(tmp_path)
