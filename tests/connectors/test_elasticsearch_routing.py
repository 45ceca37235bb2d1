"""Documents with a routing column: updates and deletes find them, whichever shard they are in. Real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from search_harness import Harness

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.schema import AlterColumnType, Column, CreateShadow, CreateTable, DataType, DropColumn, SwapShadow, TableId
from cdc.schema import TableSchema as Schema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from cdc_services.search.server import SearchServer
from connectors.elasticsearch.mapping import same_text
from connectors.elasticsearch.sink import ElasticsearchSink

pytestmark = pytest.mark.slow

ORDERS = TableId("shop", "orders")
ID, CITY = Column("id", DataType.parse("INT"), nullable=False), Column("city", DataType.parse("VARCHAR(20)"))
N = Column("n", DataType.parse("INT"))
SCHEMA = Schema((ID, CITY, N), ("id",))
CITIES = ("Rom", "Bonn", "", 'a "b"', "Köln", None, "Paris", "Oslo")


@pytest.fixture(params=["opensearch", "elasticsearch"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    server: SearchServer = request.getfixturevalue(request.param)
    options = {"index.routing-columns": "shop.orders.city", "index.settings.number_of_shards": "5"}
    made = Harness(server, tmp_path, f"pipeline-{tmp_path.name}", options)
    made.clear()
    made.sink().apply(0, [CreateTable(ORDERS, SCHEMA)])
    return made


def commit(sink: ElasticsearchSink, batch: int, *blocks: ChangeBlock) -> None:
    sink.commit(batch, list(sink.prepare(TaskAttempt(batch, 0, 0), iter(blocks))))


def orders(*changes: tuple[str, int, str | None]) -> ChangeBlock:
    return block(ORDERS, SCHEMA, [(kind, {"id": id_, "city": city, "n": id_}) for kind, id_, city in changes])


def hits(harness: Harness) -> list[tuple[str, Any, str | None]]:
    """Id, city and routing of all documents, those that are there twice as well."""
    harness.server.ask("POST", "/shop.orders/_refresh")
    found = harness.server.ask("POST", "/shop.orders/_search", {"size": 1000})["hits"]["hits"]
    return sorted((hit["_id"], hit["_source"]["city"], hit.get("_routing")) for hit in found)


def test_a_row_moves_with_its_routing_and_is_deleted_where_it_is(harness: Harness) -> None:
    """To every other city, within one batch and over several; NULL and an empty text are no routing."""
    sink = harness.sink()
    commit(sink, 0, orders(*(("+I", number, city) for number, city in enumerate(CITIES))))
    for turn in range(1, len(CITIES)):
        moves = [
            (kind, number, CITIES[(number + turn - before) % len(CITIES)])
            for number in range(len(CITIES))
            for kind, before in (("-U", 1), ("+U", 0))
        ]
        commit(sink, turn, orders(*moves))
        there = [(str(n), city := CITIES[(n + turn) % len(CITIES)], city or None) for n in range(len(CITIES))]
        assert hits(harness) == there
    commit(sink, 90, orders(("-U", 0, "Oslo"), ("+U", 0, "Rom"), ("-U", 0, "Rom"), ("+U", 0, "Oslo"), ("+I", 9, "Rom")))
    assert ("0", "Oslo", "Oslo") in hits(harness)
    commit(sink, 91, orders(*(("-D", int(id_), city) for id_, city, _ in hits(harness))))
    assert hits(harness) == []


def test_rows_are_read_back_by_their_keys(harness: Harness) -> None:
    """For `cdc verify`, which knows no routing."""
    sink = harness.sink()
    commit(sink, 0, orders(*(("+I", number, city) for number, city in enumerate(CITIES))))
    stored = sink.read_back(ORDERS, SCHEMA)
    assert stored is not None
    assert not isinstance(stored, str)
    keys = stored.stored(orders(*(("+I", number, None) for number in (0, 4, 77))).rows).select(["id"])
    found = [row for page in stored.rows(keys) for row in page.to_pylist()]
    assert sorted(row["city"] for row in found) == ["Köln", "Rom"]


def test_a_delete_that_does_not_tell_its_routing_stops_the_run(harness: Harness) -> None:
    sink = harness.sink()
    commit(sink, 0, orders(("+I", 1, "Rom")))
    with pytest.raises(SinkError, match="and no value of city"):
        commit(sink, 1, block(ORDERS, SCHEMA, [("-D", {"id": 1})]))


def test_an_index_keeps_its_routing_until_it_is_copied_anew(harness: Harness) -> None:
    """An edited option holds for new indexes, as documents that are there stay where they are."""
    commit(harness.sink(), 0, orders(("+I", 1, "Rom")))
    harness.options.pop("index.routing-columns")
    sink = harness.sink()
    commit(sink, 1, orders(("-U", 1, "Rom"), ("+U", 1, "Bonn")))
    assert hits(harness) == [("1", "Bonn", "Bonn")]
    sink.apply(2, [CreateShadow(ORDERS)])
    commit(sink, 2, block(sink.shadow(ORDERS), SCHEMA, [("+I", {"id": 1, "city": "Bonn", "n": 1})]))
    sink.apply(3, [SwapShadow(ORDERS)])
    commit(sink, 3, orders(("-U", 1, "Bonn"), ("+U", 1, "Rom")))
    assert hits(harness) == [("1", "Rom", None)]


def test_changes_of_what_ids_and_routing_are_made_of_have_the_table_read_again(harness: Harness) -> None:
    """And a routing column that is not there is refused."""
    sink = harness.sink()
    for change in (DropColumn(ORDERS, "city"), AlterColumnType(ORDERS, Column("id", DataType.parse("DECIMAL(10, 2)")))):
        with pytest.raises(ChangeRefused) as refused:
            sink.apply(1, [change])
        assert refused.value.curable
    sink.apply(1, [AlterColumnType(ORDERS, Column("id", DataType.parse("BIGINT"), nullable=False))])
    harness.options["index.routing-columns"] = "shop.x.nowhere"
    with pytest.raises(ChangeRefused, match="no column nowhere"):
        harness.sink().apply(2, [CreateTable(TableId("shop", "x"), SCHEMA)])


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("INT", "BIGINT UNSIGNED", True), ("CHAR(3)", "STRING", True), ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("DECIMAL(9, 2)", "DECIMAL(12, 2)", True), ("DECIMAL(9, 2)", "DECIMAL(12, 4)", False),
        ("DATE", "TIMESTAMP(6)", False), ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", False), ("FLOAT", "DOUBLE", False),
        ("BINARY(3)", "BINARY(4)", False), ("INT", "VARCHAR(9)", False),
    ],
)  # fmt: skip
def test_types_whose_values_have_the_same_text(old: str, new: str, same: bool) -> None:
    assert same_text(DataType.parse(old), DataType.parse(new)) is same
