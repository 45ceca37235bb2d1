"""Statements among the messages: carried out in order with the rows where there is an order, else told and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from debezium_messages import INT64, TEXT, envelope, with_schema
from debezium_messages import text as json_text
from kafka_log import Follower, TopicLog

from cdc.schema import (
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    TableId,
    TruncateTable,
)

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


def canal(kind: str, table: str, sql: str = "", **more: Any) -> bytes:
    described = {"mysqlType": {"id": "int"}, "pkNames": ["id"], "isDdl": bool(sql), "sql": sql}
    return json.dumps({"type": kind, "database": "shop", "table": table, "data": None, **described, **more}).encode()


def maxwell(kind: str, table: str, **more: Any) -> bytes:
    return json.dumps({"type": kind, "database": "shop", "table": table, "ts": 1, **more}).encode()


def test_statements_of_canal_are_carried_out_between_the_rows(tmp_path: Path) -> None:
    log = TopicLog(shop=1)
    log.write(
        "shop",
        canal("INSERT", "a", data=[{"id": "1"}]),
        canal("TRUNCATE", "a", "truncate table a"),
        canal("INSERT", "a", data=[{"id": "2"}, {"id": "3"}]),
        canal("RENAME", "b", "rename table a to b"),
        canal("INSERT", "b", data=[{"id": "4"}]),
        canal("ERASE", "b", "DROP TABLE `b` /* generated by server */"),
        canal("CREATE", "b", "create table b (id int primary key)"),
        canal("INSERT", "b", data=[{"id": "5"}]),
    )
    found = Follower(log, tmp_path)
    batches = found.follow()
    assert [ids(batch) for batch in batches] == [
        ["CreateTable", 1], ["TruncateTable", 2, 3], ["RenameTable", 4], ["DropTable"], ["CreateTable", 5],
    ]  # fmt: skip
    a, b = TableId("shop", "a"), TableId("shop", "b")
    assert [batch[0] for batch in batches[1:4]] == [TruncateTable(a), RenameTable(a, b), DropTable(b)]
    assert (found.counts, found.notices) == ({"ddl-not-carried-out shop": 1}, ())


def test_statements_of_maxwell_are_carried_out_between_the_rows(tmp_path: Path) -> None:
    old, new = ({"database": "shop", "table": name, "columns": [{"name": "id", "type": "int"}]} for name in "ab")
    wider = {**old, "columns": [*old["columns"], {"name": "n", "type": "int"}]}
    log = TopicLog(maxwell=1)
    log.write(
        "maxwell",
        maxwell("insert", "a", data={"id": 1}, primary_key_columns=["id"]),
        maxwell("table-alter", "a", old=old, **{"def": new}, sql="rename table a to b"),
        maxwell("insert", "b", data={"id": 2}, primary_key_columns=["id"]),
        maxwell("table-drop", "b", sql="drop temporary table b"),
        maxwell("table-drop", "b", sql="drop table x, b"),
        maxwell("insert", "a", data={"id": 3}, primary_key_columns=["id"]),
        maxwell("table-alter", "a", old=wider, **{"def": old}, sql="alter table a drop column n"),
        maxwell("database-drop", "", sql="drop database shop"),
    )
    found = Follower(log, tmp_path)
    batches = found.follow()
    assert [ids(batch) for batch in batches] == [
        ["CreateTable", 1], ["RenameTable", 2], ["DropTable"], ["CreateTable", 3],
    ]  # fmt: skip
    assert [batch[0] for batch in batches[1:3]] == [
        RenameTable(TableId("shop", "a"), TableId("shop", "b")), DropTable(TableId("shop", "b")),
    ]  # fmt: skip
    assert found.counts == {"ddl-not-carried-out maxwell": 3}
    assert [notice.partition(": ")[0] for notice in found.notices] == ["maxwell-0@6", "maxwell-0@7"]


def test_a_table_that_one_statement_alters_and_renames(tmp_path: Path) -> None:
    ids = {"database": "shop", "table": "b", "columns": [{"name": "id", "type": "int"}]}
    wider = {"database": "shop", "table": "a", "columns": [*ids["columns"], {"name": "n", "type": "int"}]}
    log = TopicLog(maxwell=1)
    log.write(
        "maxwell",
        maxwell("insert", "a", data={"id": 1, "n": 2}, primary_key_columns=["id"]),
        maxwell("table-alter", "a", old=wider, **{"def": ids}, sql="alter table a rename to b, drop column n"),
        maxwell("insert", "b", data={"id": 2}, primary_key_columns=["id"]),
    )
    found = Follower(log, tmp_path)
    a, b = TableId("shop", "a"), TableId("shop", "b")
    assert found.follow()[1] == [DropColumn(a, "n"), RenameTable(a, b), ("+I", {"id": 2})]
    assert (found.counts, found.notices) == ({}, ())


def test_a_rename_to_a_table_that_is_there_already_is_told(tmp_path: Path) -> None:
    log = TopicLog(shop=1)
    rows = [canal("INSERT", name, data=[{"id": "1"}]) for name in "ab"]
    log.write("shop", *rows, canal("RENAME", "b", "rename table a to b"))
    found = Follower(log, tmp_path)
    assert sorted(str(item) for batch in found.follow() for item in ids(batch)) == [
        "1",
        "1",
        "CreateTable",
        "CreateTable",
    ]
    assert "(there is a table shop.b already)" in found.notices[0]


def test_columns_are_dropped_and_renamed_between_the_rows(tmp_path: Path) -> None:
    def altered(sql: str) -> bytes:
        return canal("ALTER", "a", sql)

    def written(**values: str) -> bytes:
        types = {name: "int" if name == "id" else "varchar(20)" for name in values}
        return canal("INSERT", "a", data=[values], mysqlType=types)

    log = TopicLog(shop=1)
    log.write(
        "shop",
        written(id="1", x="p", y="q"),
        altered("alter table a drop column x"),
        written(id="2", y="q"),
        altered("alter table a rename column y to z"),
        written(id="3", z="q"),
        altered("alter table a drop column id"),
        altered("alter table a drop column gone"),
        altered("alter table a rename column z to id"),
        altered("alter table a drop column z, add column z varchar(20)"),
        altered("alter table a rename column id to key_"),
        canal("INSERT", "a", data=[{"key_": "4", "z": "q"}], mysqlType={"key_": "int"}, pkNames=["key_"]),
    )
    found = Follower(log, tmp_path)
    batches = found.follow()
    table = TableId("shop", "a")
    assert [batch[0] for batch in batches[1:]] == [
        DropColumn(table, "x"), RenameColumn(table, "y", "z"), RenameColumn(table, "id", "key_"),
    ]  # fmt: skip
    assert [batch[1:] for batch in batches] == [
        [("+I", {"id": 1, "x": "p", "y": "q"})],
        [("+I", {"id": 2, "y": "q"})],
        [("+I", {"id": 3, "z": "q"})],
        [("+I", {"key_": 4, "z": "q"})],
    ]
    assert found.counts == {"ddl-not-carried-out shop": 4}
    assert [notice[notice.index("(") + 1 : notice.index(")")] for notice in found.notices] == [
        "the column is part of the key",
        "the table has no column gone here",
        "there is a column id already",
        "only statements are applied that empty, drop or rename tables, or drop, rename or add columns of one",
    ]


@pytest.mark.parametrize("tool", ["canal", "maxwell"])
def test_columns_that_exchange_their_names_beside_other_clauses(tmp_path: Path, tool: str) -> None:
    sql = "alter table a rename column x to y, rename column y to x, drop column z, add column w int"
    names = [["id", "x", "y", "z"], ["id", "y", "x", "w"]]
    if tool == "canal":
        rows = [
            canal("INSERT", "a", data=[dict.fromkeys(of, "1") | {"x": "2"}], mysqlType=dict.fromkeys(of, "int"))
            for of in names
        ]
        told = canal("ALTER", "a", sql)
    else:
        rows = [
            maxwell("insert", "a", data=dict.fromkeys(of, 1) | {"x": 2}, primary_key_columns=["id"]) for of in names
        ]
        old, new = ({"database": "shop", "table": "a", "columns": [{"name": name} for name in of]} for of in names)
        told = maxwell("table-alter", "a", old=old, sql=sql, **{"def": new})
    log = TopicLog(shop=1)
    log.write("shop", rows[0], told, rows[1])
    found = Follower(log, tmp_path)
    table = TableId("shop", "a")
    batches = found.follow()
    assert [item for batch in batches[1:] for item in batch][:2] == [
        DropColumn(table, "z"), RenameColumns(table, (("x", "y"), ("y", "x"))),
    ]  # fmt: skip
    assert batches[-1][-1] == ("+I", {"id": 1, "y": 1, "x": 2, "w": 1})
    assert (found.counts, found.notices) == ({}, ())


def test_tables_that_exchange_their_names_in_one_message(tmp_path: Path) -> None:
    log = TopicLog(shop=1)
    rows = [canal("INSERT", name, data=[{"id": id_}]) for name, id_ in (("a", "1"), ("b", "2"), ("a", "3"))]
    log.write("shop", *rows[:2], canal("RENAME", "b", "rename table a to c, b to a, c to b"), rows[2])
    found = Follower(log, tmp_path)
    flat = [item for batch in found.follow() for item in batch]
    a, b, c = (TableId("shop", name) for name in "abc")
    assert [item for item in flat if isinstance(item, RenameTable)] == [
        RenameTable(a, c), RenameTable(b, a), RenameTable(c, b),
    ]  # fmt: skip
    assert flat[-1] == ("+I", {"id": 3})
    assert (found.counts, found.notices) == ({}, ())


def test_a_rename_of_several_tables_is_carried_out_whole_or_not_at_all(tmp_path: Path) -> None:
    log = TopicLog(shop=1, other=1)
    for topic, name in (("shop", "a"), ("shop", "b"), ("other", "b")):
        log.write(topic, canal("INSERT", name, data=[{"id": "1"}]))
    log.write("shop", canal("RENAME", "c", "rename table a to c, unread to a"))
    log.write("shop", canal("RENAME", "c", "rename table a to c, b to a"))
    found = Follower(log, tmp_path)
    assert not any(isinstance(item, RenameTable) for batch in found.follow() for item in batch)
    assert found.counts == {"ddl-not-carried-out shop": 2}
    assert [notice[notice.index("(") + 1 : notice.index(")")] for notice in found.notices] == [
        "no row of shop.unread was read before",
        "the table's rows come from the topic other too",
    ]
