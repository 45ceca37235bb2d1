"""Statements among the messages: carried out in order with the rows where there is an order, else told and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from debezium_messages import INT64, TEXT, envelope, with_schema
from debezium_messages import text as json_text
from kafka_log import Follower, TopicLog

from cdc.schema import CreateTable, TableId, TruncateTable

ORDERS = TableId("shop", "orders")
FIELDS = {"id": INT64, "name": TEXT}


def row(id_: int, table: str = "shop.orders") -> bytes:
    return with_schema(FIELDS, envelope("c", None, {"id": id_, "name": "a"}, table=table))


def truncate(table: str = "shop.orders") -> bytes:
    return with_schema(FIELDS, envelope("t", None, None, table=table))


def ids(batch: list[Any]) -> list[Any]:
    """The schema changes of a batch by their names, then the ids of its rows."""
    return [item[1]["id"] if isinstance(item, tuple) else type(item).__name__ for item in batch]


def test_a_truncate_of_debezium_is_carried_out_between_the_rows(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", row(1), row(2), truncate(), row(3), truncate(), truncate(), row(4))
    found = Follower(log, tmp_path)
    batches = found.follow()
    assert [ids(batch) for batch in batches] == [
        ["CreateTable", 1, 2], ["TruncateTable", 3], ["TruncateTable"], ["TruncateTable", 4],
    ]  # fmt: skip
    assert batches[1][0] == TruncateTable(ORDERS)
    assert (found.counts, found.notices) == ({}, ())


def test_a_run_that_ended_is_continued_behind_a_truncate_and_replays_its_batch_as_it_was(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", row(1), truncate(), row(2))
    first = Follower(log, tmp_path)
    first.follow(1)
    start = first.at
    assert [ids(batch) for batch in first.follow()] == [["TruncateTable", 2]]
    log.write("orders", row(3))
    assert [ids(batch) for batch in Follower(log, tmp_path, first.at).follow()] == [[3]]
    # The entry of a batch that was planned and never stored is forgotten, and found again.
    assert [ids(batch) for batch in Follower(log, tmp_path, start).follow()] == [["TruncateTable", 2, 3]]


def test_among_several_partitions_a_truncate_has_no_place_and_is_told_and_counted(tmp_path: Path) -> None:
    log = TopicLog(orders=2)
    log.write("orders", row(1), truncate(), row(2))
    log.write("orders", row(3), partition=1)
    found = Follower(log, tmp_path)
    assert sorted(str(item) for batch in found.follow() for item in ids(batch)) == ["1", "2", "3", "CreateTable"]
    assert found.counts == {"ddl-not-carried-out orders": 1}
    assert found.notices == (
        "orders-0@1: the sink is not changed by this statement (the topic has 2 partitions, so it has no order with "
        "the rows): TRUNCATE TABLE shop.orders",
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_a_table_from_two_topics_is_not_emptied_by_one_of_them(tmp_path: Path, *, restarted: bool) -> None:
    log = TopicLog(east=1, west=1)
    log.write("east", row(1))
    log.write("west", row(2))
    found = Follower(log, tmp_path)
    assert sorted(str(item) for batch in found.follow() for item in ids(batch)) == ["1", "2", "CreateTable"]
    if restarted:
        found = Follower(log, tmp_path, found.at)
    log.write("east", truncate())
    assert [ids(batch) for batch in found.follow()] == [[]]
    assert found.counts == {"ddl-not-carried-out east": 1}
    assert "(the table's rows come from the topic west too)" in found.notices[0]


def test_a_statement_about_a_table_that_is_not_wanted_or_not_known(tmp_path: Path) -> None:
    log = TopicLog(orders=1)
    log.write("orders", truncate("shop.other"), truncate(), row(1))
    found = Follower(log, tmp_path, tables="shop.orders")
    assert [ids(batch) for batch in found.follow()] == [[], ["CreateTable", 1]]
    assert found.counts == {"ddl-not-carried-out orders": 1}
    assert [notice.partition(":")[0] for notice in found.notices] == ["orders-0@1"]


def test_each_partition_tells_its_statements(tmp_path: Path) -> None:
    ddl = json_text({"source": {"db": "shop"}, "databaseName": "shop", "ddl": "drop table t", "tableChanges": []})
    log = TopicLog(ddl=2)
    log.write("ddl", ddl, ddl)
    log.write("ddl", ddl, partition=1)
    found = Follower(log, tmp_path)
    found.follow()
    assert [notice.partition(":")[0] for notice in found.notices] == ["ddl-0@0", "ddl-0@1", "ddl-1@0"]


def test_a_partition_that_waits_for_a_schema_is_not_held_up_by_the_others(tmp_path: Path) -> None:
    log = TopicLog(items=1, orders=1)
    log.write("items", row(1, "shop.items"))
    found = Follower(log, tmp_path)
    assert [ids(batch) for batch in found.follow()] == [["CreateTable", 1]]
    log.write("items", row(2, "shop.items"))
    log.write("orders", row(7))
    assert [ids(batch) for batch in found.follow(1)] == [[2]]
    log.write("items", row(3, "shop.items"))
    (batch,) = found.follow(1)
    assert isinstance(batch[0], CreateTable)
    assert sorted(ids(batch)[1:]) == [3, 7]
