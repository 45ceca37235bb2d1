"""The source's own types of columns reach the sink with the rows, where they are true of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from cdc.block import ChangeBlock
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import AlterColumnType, Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.sink_columns import Coercion
from cdc.spec.model import RouteRule
from cdc.testing import ListSink, ListSource, block, run_in_memory

INT, BIGINT, TEXT = (DataType.parse(text) for text in ("INT", "BIGINT", "STRING"))
ALL = TableId("shop", "all")


class Watched(ListSink):
    """Notes the source's types of the rows that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[list[str]] = []

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        def watched() -> Iterator[ChangeBlock]:
            for each in blocks:
                self.met.append([column.source_type for column in each.schema.columns])
                yield each

        return super().prepare(task, watched())


def schema(number: DataType, number_type: str, labels: str) -> TableSchema:
    columns = (
        Column("id", INT, False, source_type="mediumint"),
        Column("number", number, source_type=number_type),
        Column("kind", TEXT, source_type=f"enum({labels})"),
    )
    return TableSchema(columns, ("id",))


def rows(table: TableId, shape: TableSchema, number: int) -> Any:
    return block(table, shape, [("+I", {"id": number, "number": 1, "kind": "a"})], sequence=number)


def met(items: list[Any], behavior: str, *tables: TableId) -> list[list[str]]:
    sink = Watched()
    rules = [RouteRule(source_table=str(table), sink_table=str(ALL)) for table in tables]
    routing = Middle(RouteTable(rules), Policy(Behavior(behavior)), Coercion("fail"))
    run_in_memory(ListSource(items), sink, middle=routing)
    return sink.met


def test_a_type_that_only_the_source_tells_apart_arrives_with_the_rows_it_is_true_of() -> None:
    table = TableId("shop", "orders")
    narrow, wide = schema(INT, "int", "'a','b'"), schema(INT, "int", "'b','a'")
    items = [CreateTable(table, narrow), rows(table, narrow, 1), rows(table, wide, 2)]
    assert met(items, "evolve") == [["mediumint", "int", "enum('a','b')"], ["mediumint", "int", "enum('b','a')"]]


def test_a_column_that_the_sink_has_wider_is_not_of_the_sources_type() -> None:
    table = TableId("shop", "orders")
    wide, narrow = schema(BIGINT, "bigint", "'a'"), schema(INT, "int", "'a'")
    column = narrow.columns[1]
    items = [
        CreateTable(table, wide), rows(table, wide, 1), AlterColumnType(table, column, wide.columns[1]),
        rows(table, narrow, 2),
    ]  # fmt: skip
    assert met(items, "ignore") == [["mediumint", "bigint", "enum('a')"], ["mediumint", "", "enum('a')"]]


@pytest.mark.parametrize(("other", "wanted"), [("'a','b'", "enum('a','b')"), ("'b','a'", "")])
def test_tables_in_one_have_the_types_that_all_of_them_have(other: str, wanted: str) -> None:
    one, two = TableId("shop", "one"), TableId("shop", "two")
    first, second = schema(INT, "int", "'a','b'"), schema(INT, "int", other)
    items = [CreateTable(one, first), CreateTable(two, second), rows(one, first, 1), rows(two, second, 2)]
    assert met(items, "evolve", one, two) == [["mediumint", "int", wanted]]
    assert replace(first, columns=second.columns) == first, "schemas are equal whatever the source calls its types"
