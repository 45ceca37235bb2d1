"""Documents with a routing column: updates and deletes find them, whichever shard they are in. Real servers."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from search_harness import Harness
from sink_calls import commit

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameTable,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.schema import TableSchema as Schema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from cdc_services.search.server import SearchServer
from connectors.elasticsearch.mapping import same_text

pytestmark = pytest.mark.slow

ORDERS = TableId("shop", "orders")
ID, CITY = Column("id", DataType.parse("INT"), nullable=False), Column("city", DataType.parse("VARCHAR(20)"))
N = Column("n", DataType.parse("INT"))
SCHEMA = Schema((ID, CITY, N), ("id",))
CITIES = ("Rom", "Bonn", "", 'a "b"', "Köln", None, "Paris", "Oslo", "rom")
ROUTING, SHARDING = {"index.routing-columns": "shop.orders.city"}, {"sharding.suffix.key": "shop.orders:city"}


SHARDED = [("opensearch", SHARDING), pytest.param(("elasticsearch", SHARDING), marks=pytest.mark.exhaustive)]


@pytest.fixture(params=[("opensearch", ROUTING), ("elasticsearch", ROUTING), *SHARDED])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    name, placing = request.param
    server: SearchServer = request.getfixturevalue(name)
    options = {**placing, "index.settings.number_of_shards": "5" if placing is ROUTING else "1"}
    made = Harness(server, tmp_path, f"pipeline-{tmp_path.name}", options)
    made.clear()
    made.sink().apply(0, [CreateTable(ORDERS, SCHEMA)])
    return made


def orders(*changes: tuple[str, int, str | None]) -> ChangeBlock:
    return block(ORDERS, SCHEMA, [(kind, {"id": id_, "city": city, "n": id_}) for kind, id_, city in changes])


def hits(harness: Harness) -> list[tuple[str, Any]]:
    """Id and city of all documents, those that are there twice as well; each is where its city says."""
    separator = harness.options.get("sharding.suffix.separator", "_")
    harness.server.ask("POST", "/shop.orders/_refresh")
    found = harness.server.ask("POST", "/shop.orders/_search", {"size": 1000})["hits"]["hits"]
    for hit in found:
        city = hit["_source"]["city"]
        if "sharding.suffix.key" in harness.options:
            name = "".join("_" if letter in ' "' else letter for letter in (city or "").lower())
            assert hit["_index"].rpartition("-")[0] == (f"shop.orders{separator}{name}" if city else "shop.orders")
        else:
            assert hit.get("_routing") == (city or None if harness.options.get("index.routing-columns") else None)
    return sorted((hit["_id"], hit["_source"]["city"]) for hit in found)


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
        there = [(str(n), CITIES[(n + turn) % len(CITIES)]) for n in range(len(CITIES))]
        assert hits(harness) == there
    commit(sink, 90, orders(("-U", 0, "rom"), ("+U", 0, "Rom"), ("-U", 0, "Rom"), ("+U", 0, "Oslo"), ("+I", 99, "Rom")))
    assert ("0", "Oslo") in hits(harness)
    commit(sink, 91, orders(*(("-D", int(id_), city) for id_, city in hits(harness))))
    assert hits(harness) == []


def test_rows_are_read_back_by_their_keys(harness: Harness) -> None:
    """For `cdc verify`, which knows no routing."""
    sink = harness.sink()
    commit(sink, 0, orders(*(("+I", number, city) for number, city in enumerate(CITIES))))
    stored = sink.read_back(ORDERS, SCHEMA)
    assert stored is not None
    assert not isinstance(stored, str)
    keys = stored.as_stored(orders(*(("+I", number, None) for number in (0, 4, 77))).rows).select(["id"])
    found = [row for page in stored.rows(keys) for row in page.to_pylist()]
    assert sorted(row["city"] for row in found) == ["Köln", "Rom"]


Change = tuple[str, int, str | None, int | None]


def changes(*given: Change) -> ChangeBlock:
    return block(ORDERS, SCHEMA, [(kind, {"id": id_, "city": city, "n": n}) for kind, id_, city, n in given])


def test_a_delete_that_does_not_tell_its_routing_finds_its_document(harness: Harness) -> None:
    """It has its key alone, or its row is NULL but for the key; also within a batch, and when that is sent again."""
    sink = harness.sink()
    commit(
        sink, 0, orders(*(("+I", number, city) for number, city in enumerate(CITIES))), changes(("+I", 9, None, None))
    )
    gone = changes(*(("-D", id_, None, None) for id_ in (*range(4), 9, 77)))
    within = changes(
        ("+I", 20, "Rom", 1), ("-D", 20, None, None), ("+I", 21, "Rom", 1), ("-D", 21, None, None),
        ("+I", 21, "Oslo", 2), ("-D", 4, None, None), ("+I", 4, "Oslo", 7),
    )  # fmt: skip
    handles = list(sink.prepare(TaskAttempt(1, 0, 0), iter([gone, within])))
    assert (sum(each.inserts for each in handles), sum(each.deletes for each in handles)) == (4, 9)
    left = [("21", "Oslo"), ("4", "Oslo"), *((str(n), CITIES[n]) for n in (5, 6, 7, 8))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(sink._cluster), "note_batch", _crash)
        with pytest.raises(ZeroDivisionError):
            sink.commit(1, handles)
    harness.sink().commit(1, handles)
    assert hits(harness) == sorted(left)


def _crash(*_: object) -> None:
    raise ZeroDivisionError


def test_a_row_without_what_it_was_before_leaves_no_other_document(harness: Harness) -> None:
    """As topics of plain rows have them, wherever the document was."""
    sink = harness.sink()
    commit(sink, 0, changes(("+U", 1, "Rom", 1), ("+U", 2, "Rom", 1), ("+U", 3, None, 1)))
    commit(sink, 1, changes(("+U", 1, "Bonn", 2), ("+U", 2, "Rom", 2), ("+U", 3, "Oslo", 2), ("+U", 3, None, 3)))
    assert hits(harness) == [("1", "Bonn"), ("2", "Rom"), ("3", None)]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_random_changes_that_tell_their_routing_and_that_do_not(harness: Harness, seed: int) -> None:
    """The index is the table after each batch."""
    rng, sink, table = random.Random(seed), harness.sink(), dict[int, tuple[str | None, int | None]]()
    for batch in range(8):
        given: list[Change] = []
        for _ in range(rng.randint(1, 30)):
            id_, new = rng.randint(0, 9), (rng.choice(CITIES), rng.choice([None, 1, 2]))
            if id_ not in table:
                given.append((rng.choice(["+I", "+U"]), id_, *new))
                table[id_] = new
            elif rng.random() < 0.4:
                was = table.pop(id_)
                given.append(("-D", id_, *rng.choice([was, (None, None)])))
            else:
                given += [("-U", id_, *table[id_])] if rng.random() < 0.5 else []
                given.append(("+U", id_, *new))
                table[id_] = new
        commit(sink, batch, changes(*given))
        assert hits(harness) == sorted((str(id_), city) for id_, (city, _) in table.items())


def test_an_index_keeps_its_routing_until_it_is_re_snapshotted(harness: Harness) -> None:
    """An edited option holds for new indexes, as documents that are there stay where they are."""
    commit(harness.sink(), 0, orders(("+I", 1, "Rom")))
    placing = dict(harness.options)
    harness.options.clear()
    sink = harness.sink()
    commit(sink, 1, orders(("-U", 1, "Rom"), ("+U", 1, "Bonn")))
    harness.options.update(placing)
    assert hits(harness) == [("1", "Bonn")]
    harness.options.clear()
    sink = harness.sink()
    sink.apply(2, [CreateShadow(ORDERS)])
    commit(sink, 2, block(sink.shadow(ORDERS), SCHEMA, [("+I", {"id": 1, "city": "Bonn", "n": 1})]))
    sink.apply(3, [SwapShadow(ORDERS)])
    commit(sink, 3, orders(("-U", 1, "Bonn"), ("+U", 1, "Rom")))
    found = harness.server.ask("GET", "/_cat/indices/shop.*?format=json&h=index")
    assert [row["index"] for row in found] == ["shop.orders-000002"]
    harness.options["index.routing-columns"] = ""
    assert hits(harness) == [("1", "Rom")]


def test_changes_of_what_ids_and_routing_are_made_of_have_the_table_read_again(harness: Harness) -> None:
    """And a routing column that is not there is refused."""
    sink = harness.sink()
    for change in (DropColumn(ORDERS, "city"), AlterColumnType(ORDERS, Column("id", DataType.parse("DECIMAL(10, 2)")))):
        with pytest.raises(ChangeRefused) as refused:
            sink.apply(1, [change])
        assert refused.value.resnapshot_helps
        assert not refused.value.hint
    sink.apply(1, [AlterColumnType(ORDERS, Column("id", DataType.parse("BIGINT"), nullable=False))])
    harness.options["index.routing-columns"] = "shop.x.nowhere"
    with pytest.raises(ChangeRefused, match="no column nowhere"):
        harness.sink().apply(2, [CreateTable(TableId("shop", "x"), SCHEMA)])


@pytest.mark.parametrize("harness", SHARDED, indirect=True)
def test_indexes_of_a_sharding_column_live_and_go_with_their_table(harness: Harness) -> None:
    """Column added, re-snapshot, rename, truncate, drop; a name that another table has, a first index that is gone."""

    def indexes() -> list[str]:
        found = harness.server.ask("GET", "/_cat/indices/shop.*?format=json&h=index")
        return sorted(row["index"].removeprefix("shop.") for row in found)

    def aliases() -> set[str]:
        return set(chain.from_iterable(one["aliases"] for one in harness.server.ask("GET", "/shop.*").values()))

    sink = harness.sink()
    commit(sink, 0, orders(("+I", 1, "Rom"), ("+I", 2, "Bonn"), ("+I", 3, None)))
    sink.apply(1, [AddColumn(ORDERS, Column("more", DataType.parse("INT")))])
    wide = Schema((*SCHEMA.columns, Column("more", DataType.parse("INT"))), ("id",))
    row = {"id": 1, "city": "Rom", "n": 1, "more": 7}
    commit(sink, 1, block(ORDERS, wide, [("+U", row), ("+I", row | {"id": 4, "city": "Oslo"})]))
    assert hits(harness) == [("1", "Rom"), ("2", "Bonn"), ("3", None), ("4", "Oslo")]
    stored = sink.describe(ORDERS)
    assert stored is not None
    assert stored.names == ("id", "city", "n", "more")
    sink.apply(2, [CreateShadow(ORDERS)])
    commit(sink, 2, block(sink.shadow(ORDERS), wide, [("+I", row), ("-U", row), ("+U", row | {"city": "Bonn"})]))
    assert len(hits(harness)) == 4
    sink.apply(3, [SwapShadow(ORDERS)])
    assert (hits(harness), indexes()) == (
        [("1", "Bonn")], ["orders-000002", "orders_bonn-000002", "orders_rom-000002"]
    )  # fmt: skip
    new = TableId("shop", "neu")
    sink.apply(4, [RenameTable(ORDERS, new)])
    commit(
        sink,
        4,
        block(new, wide, [("-U", row | {"city": "Bonn"}), ("+U", row), ("+I", row | {"id": 5, "city": "Oslo"})]),
    )
    assert aliases() == {"shop.neu", "shop.neu_rom", "shop.neu_bonn", "shop.neu_oslo"}
    sink.apply(5, [CreateTable(TableId("shop", "neu_x"), SCHEMA), CreateTable(ORDERS, SCHEMA)])
    with pytest.raises(SinkError, match=r"belong into shop.neu_x, which is shop.neu_x-000001"):
        commit(sink, 5, block(new, wide, [("+U", row | {"city": "x"})]))
    sink.apply(6, [TruncateTable(new), DropTable(TableId("shop", "neu_x"))])
    assert indexes() == ["neu-000001", "orders-000003"]
    commit(sink, 6, orders(("+I", 1, "Rom")))
    harness.server.ask("DELETE", "/shop.orders-000003")
    for again in (lambda: commit(sink, 7, orders(("-D", 1, "Rom"))), lambda: sink.missing_tables([ORDERS])):
        with pytest.raises(SinkError, match=r"its shards \(rom\) are"):
            again()
    sink.apply(8, [DropTable(new)])
    assert indexes() == ["orders_rom-000003"]


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


@pytest.mark.parametrize("harness", [("opensearch", {**SHARDING, "sharding.suffix.separator": "$"})], indirect=True)
def test_the_separator_of_shards(harness: Harness) -> None:
    sink = harness.sink()
    commit(sink, 0, orders(("+I", 1, "Rom"), ("+I", 2, None)))
    commit(sink, 1, orders(("-U", 1, "Rom"), ("+U", 1, "Bonn")))
    assert hits(harness) == [("1", "Bonn"), ("2", None)]
