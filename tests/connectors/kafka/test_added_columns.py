"""Columns added with a default: rows in the sink get what the source's server gave them, or it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from debezium_messages import INT64, TEXT, envelope, logical, with_schema
from debezium_messages import text as json_text
from kafka_log import Follower, TopicLog
from together import together

from cdc.schema import AddColumn, Column, DataType, Kind, RenameColumn, SourceStatement, TableId, TableSchema
from connectors.kafka.encoding import canal as canal_format
from connectors.kafka.encoding import maxwell as maxwell_format
from connectors.kafka.encoding.table_changes import TableChange
from connectors.kafka.formats.added import Added, as_value
from connectors.kafka.formats.ddl import AlteredColumns, changes_of

A, ORDERS = TableId("shop", "a"), TableId("shop", "orders")
TOPIC = "srv.shop.orders"


def canal(kind: str, sql: str = "", data: Sequence[Any] = (), **types: str) -> bytes:
    described = {"mysqlType": {"id": "int", **types}, "pkNames": [], "isDdl": bool(sql), "sql": sql}
    return json.dumps({"type": kind, "database": "shop", "table": "a", "data": list(data), **described}).encode()


def alter(sql: str) -> bytes:
    return canal("ALTER", f"alter table a {sql}")


def maxwell(kind: str, **more: Any) -> bytes:
    return json.dumps({"type": kind, "database": "shop", "table": "a", "ts": 1, **more}).encode()


def row(pos: int, fields: dict[str, Any], **values: Any) -> tuple[bytes, bytes]:
    message = envelope("c", None, values)
    message["source"]["pos"] = pos
    return json_text({"id": values["id"]}), with_schema({"id": INT64, **fields}, message)


def ddl(pos: int, sql: str, *columns: str) -> bytes:
    change = {"type": "ALTER", "id": '"shop"."orders"', "table": {"columns": [{"name": name} for name in columns]}}
    source = {"file": "binlog.000001", "pos": pos, "server_id": 1, "snapshot": "false"}
    return json_text({"source": source, "databaseName": "shop", "ddl": sql, "tableChanges": [change]})


def follow(found: Follower) -> list[Any]:
    """All there is now: schema changes, then rows, batch by batch."""
    found.source.stop_at_current()
    return [item[1] if isinstance(item, tuple) else item for batch in found.follow() for item in batch]


def altered(sql: str) -> AlteredColumns:
    """The one change of a statement."""
    (found,) = changes_of(sql, "shop")
    assert isinstance(found, AlteredColumns)
    return found


def filled(items: Sequence[Any]) -> list[tuple[str, str | None]]:
    """Names of added columns with what rows that are there get."""
    return [(item.column.name, item.column.default) for item in items if isinstance(item, AddColumn)]


def test_rows_of_every_partition_get_the_default_that_debezium_tells(tmp_path: Path) -> None:
    price = logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="2")
    fields = {"price": price, "state": TEXT}
    log = TopicLog(**{"srv": 1, TOPIC: 2})
    sql = "add price decimal(10,2) not null default 1.5 comment 'x, y', add state varchar(9) default 'new'"
    log.write("srv", ddl(20, f"alter table orders {sql}", "id", "price", "state"))
    log.logs[TOPIC, 0] += [row(10, {}, id=1), row(30, fields, id=3, price="AJY=", state="old")]
    log.logs[TOPIC, 1] += [row(11, {}, id=2)]
    found = Follower(log, tmp_path)
    items = follow(found)
    assert filled(items) == [("price", "1.50"), ("state", "new")]
    before = items[: items.index(next(item for item in items if isinstance(item, AddColumn)))]
    assert sorted(item["id"] for item in before if isinstance(item, dict)) == [1, 2]
    assert (found.counts, found.notices) == ({}, ())


def test_a_default_that_a_run_has_read_is_there_in_the_next_one(tmp_path: Path) -> None:
    log = TopicLog(**{"srv": 1, TOPIC: 1})
    log.logs[TOPIC, 0].append(row(10, {}, id=1))
    log.write("srv", ddl(20, "alter table orders add n int default 7", "id", "n"))
    first = Follower(log, tmp_path)
    assert filled(follow(first)) == []
    log.logs[TOPIC, 0].append(row(30, {"n": INT64}, id=2, n=8))
    assert filled(follow(Follower(log, tmp_path, first.at))) == [("n", "7")]


@pytest.mark.parametrize("tool", ["canal", "maxwell"])
def test_a_delete_without_a_key_meets_the_row_that_got_the_default(tmp_path: Path, tool: str) -> None:
    """The row that is deleted is told with its default: the sink's has to be filled before."""
    if tool == "canal":
        messages = [
            canal("INSERT", data=[{"id": "1"}]), alter("add column n int not null default '3'"),
            canal("DELETE", data=[{"id": "1", "n": "3"}], n="int"),
        ]  # fmt: skip
    else:
        old, new = ({"database": "shop", "table": "a", "columns": [{"name": name} for name in names]}
                    for names in (["id"], ["id", "n"]))  # fmt: skip
        sql = "alter table a add column n int not null default '3'"
        messages = [
            maxwell("insert", data={"id": 1}), maxwell("table-alter", old=old, sql=sql, **{"def": new}),
            maxwell("delete", data={"id": 1, "n": 3}),
        ]  # fmt: skip
    log = TopicLog(t=1)
    log.write("t", *messages)
    found = Follower(log, tmp_path)
    batches = found.follow()
    assert filled(batches[-1]) == [("n", "3")]
    assert batches[-1][1:] == [("-D", {"id": 1, "n": 3})]
    assert (found.counts, found.notices) == ({}, ())


@pytest.mark.parametrize("encoder", [canal_format, maxwell_format])
def test_the_statement_as_the_sink_writes_it_is_read(tmp_path: Path, encoder: Any) -> None:
    before = TableSchema((Column("id", DataType(Kind.INT)),))
    after = TableSchema((*before.columns, Column("n", DataType(Kind.INT), default="3")))
    told = SourceStatement("ALTER TABLE a ADD COLUMN n INT DEFAULT 3", file="binlog.000001", begin=20, end=30)
    change = TableChange(A, A, before, after, told, emptied=False)
    of_canal = encoder is canal_format
    statement = (
        canal_format.schema_message(change, 1, one_topic=True) if of_canal else maxwell_format.schema_message(change)
    )
    log = TopicLog(t=1)
    first = canal("INSERT", data=[{"id": "1"}]) if of_canal else maxwell("insert", data={"id": 1})
    last = canal("INSERT", data=[{"id": "2", "n": "5"}], n="int")
    log.write("t", first, json_text(statement), last if of_canal else maxwell("insert", data={"id": 2, "n": 5}))
    found = Follower(log, tmp_path)
    assert filled(follow(found)) == [("n", "3")]
    assert (found.counts, found.notices) == ({}, ())


def test_rows_behind_a_rename_tell_nothing_of_the_columns_before_it(tmp_path: Path) -> None:
    """Without types in the messages, the values of all rows that are there tell the columns."""
    old, new = ({"database": "shop", "table": "a", "columns": [{"name": name}]} for name in ("n", "m"))
    log = TopicLog(t=1)
    sql = "alter table a rename column n to m"
    log.write(
        "t",
        maxwell("insert", data={"n": 1}),
        maxwell("table-alter", old=old, sql=sql, **{"def": new}),
        maxwell("insert", data={"m": 2}),
    )
    found = Follower(log, tmp_path)
    assert follow(found)[1:] == [{"n": 1}, RenameColumn(A, "n", "m"), {"m": 2}]
    assert (found.counts, found.notices) == ({}, ())


def test_a_column_that_is_dropped_or_renamed_before_a_row_has_it(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    log.write(
        "t",
        canal("INSERT", data=[{"id": "1"}]),
        alter("add n int default 1, add m int default 2"),
        alter("drop column n"),
        alter("rename column m to k"),
        alter("add n int"),
        canal("INSERT", data=[{"id": "2", "n": None, "k": "2"}], n="int", k="int"),
    )
    found = Follower(log, tmp_path)
    assert filled(follow(found)) == [("n", None), ("k", "2")]
    assert found.notices == ()


def test_a_value_that_is_not_certain_is_told_and_counted(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    log.write(
        "t",
        alter("add before_all datetime default now()"),  # no row is there
        canal("INSERT", data=[{"id": "1"}]),
        alter("add m datetime default current_timestamp, add n int default 4"),
        canal("INSERT", data=[{"id": "2", "m": "2026-01-01 00:00:00", "n": "4"}], m="datetime", n="int"),
        alter("add n int default 5"),
        alter("add b bit(1) not null"),
    )
    found = Follower(log, tmp_path)
    assert filled(follow(found)) == [("m", None), ("n", "4")]
    why = "the server's default for it is not a constant that is certain here"
    assert [notice.partition(": alter")[0] for notice in found.notices] == [
        f"t-0@2: existing rows get NULL in shop.a, column m ({why})",
        "t-0@4: the sink is not changed by this statement (there is a column n already, whose rows may hold other "
        "values)",
        f"t-0@5: existing rows get NULL in shop.a, column b ({why})",
    ]  # fmt: skip
    assert found.counts == {"ddl-not-carried-out t": 4}


def test_nulls_of_a_column_that_becomes_not_null_are_told(tmp_path: Path) -> None:
    """A session that is not strict makes other values of them, and no message has the session's `sql_mode`."""
    log = TopicLog(t=1)
    log.write(
        "t",
        canal("INSERT", data=[{"id": "1", "n": None, "m": None}], n="int", m="int"),
        alter("modify n bigint not null, change m k int not null"),
        alter("modify n bigint null"),
    )
    found = Follower(log, tmp_path)
    follow(found)
    assert [notice.partition(": alter")[0] for notice in found.notices] == [
        "t-0@1: NULLs that are there stay NULL in shop.a, column n, k: the source has other values for them if the "
        "session of this statement was not strict",
    ]


def test_a_column_that_the_server_recomputed_is_told(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    row = canal("INSERT", data=[{"id": "1", "n": "2"}], n="int")
    log.write("t", row, alter("modify n int generated always as (id * 3) stored"), alter("modify n int"))
    found = Follower(log, tmp_path)
    follow(found)
    assert [notice.partition(": alter")[0] for notice in found.notices] == [
        "t-0@1: rows that are there keep their values in shop.a, column n, which the source recomputed",
    ]


def test_a_default_that_does_not_fit_the_type_of_the_messages_is_told(tmp_path: Path) -> None:
    log = TopicLog(**{"srv": 1, TOPIC: 1})
    log.write("srv", ddl(20, "alter table orders add d date default '2026-01-02'", "id", "d"))
    log.logs[TOPIC, 0] += [row(10, {}, id=1), row(30, {"d": INT64}, id=2, d=20000)]
    found = Follower(log, tmp_path)
    assert filled(follow(found)) == [("d", None)]
    assert found.notices == (
        "shop.orders: existing rows get NULL in the new column d: its default '2026-01-02' is not certain as "
        "BIGINT, the type of the messages",
    )


@pytest.mark.parametrize(("default", "told"), [("7", "'7'"), ("(rand())", "'unknown'")])
def test_a_default_that_is_told_before_any_row_is_read_is_told_where_rows_lack_it(
    tmp_path: Path, default: str, told: str
) -> None:
    """Debezium's topic of statements is read to its end, and rows from before it come later."""
    log = TopicLog(**{"srv": 1, TOPIC: 1})
    log.write("srv", ddl(20, f"alter table orders add n int default {default}", "id", "n"))
    first = Follower(log, tmp_path)
    assert follow(first) == []
    log.logs[TOPIC, 0].append(row(10, {}, id=1))
    second = Follower(log, tmp_path, first.at)
    follow(second)
    log.logs[TOPIC, 0].append(row(30, {"n": INT64}, id=2, n=8))
    third = Follower(log, tmp_path, second.at)
    assert filled(follow(third)) == [("n", None)]
    assert (first.notices, second.notices) == ((), ())
    assert third.notices == (
        "shop.orders: existing rows get NULL in the new column n: its default, "
        f"{told}, came before any row of the table was read",
    )


def test_a_default_that_is_told_before_any_row_is_nothing_to_tell_where_all_rows_have_it(tmp_path: Path) -> None:
    log = TopicLog(**{"srv": 1, TOPIC: 1})
    log.write("srv", ddl(20, "alter table orders add n int default 7", "id", "n"))
    first = Follower(log, tmp_path)
    follow(first)
    log.logs[TOPIC, 0].append(row(30, {"n": INT64}, id=2, n=8))
    second = Follower(log, tmp_path, first.at)
    assert filled(follow(second)) == []
    log.logs[TOPIC, 0].append(row(40, {"n": INT64, "m": INT64}, id=3, n=8, m=1))
    third = Follower(log, tmp_path, second.at)
    assert filled(follow(third)) == [("m", None)]
    assert (first.notices, second.notices, third.notices) == ((), (), ())


def test_without_an_order_a_default_is_told(tmp_path: Path) -> None:
    log = TopicLog(t=2)
    log.write("t", canal("INSERT", data=[{"id": "1"}]), alter("add n int default 1"))
    found = Follower(log, tmp_path)
    assert filled(follow(found)) == []
    assert "(the topic has 2 partitions, so it has no order with the rows)" in found.notices[0]


ADDED: dict[str, tuple[str | None, bool]] = {
    "int default 5": ("5", True), "int not null": ("0", True), "boolean default true": ("1", True),
    "int unsigned default +7 after `x`": ("7", True), "int default 1.5": (None, False),
    "decimal(5,2) default 1": ("1.00", True), "decimal(5,2) default 1.005": (None, False),
    "decimal(3,2) default 10": (None, False), "double default -0.1": ("-0.1", True),
    "float default 0.5": ("0.5", True), "float default 0.1": (None, False), "float(5,1) default 0.5": (None, False),
    "varchar(9) charset utf8mb4 collate utf8mb4_bin default 'it''s' not null": ("it's", True),
    "varchar(9) default 'a\\nb'": (None, False), "varchar(9) default 'it\\'s'": ("it's", True),
    "varchar(9) default 'a\\%'": (None, False), "varchar(9) default ''": ("", True), "text not null": ("", True),
    "char(5) default 'a  '": ("a", True), "varchar(9) default 1.50": (None, False),
    "varchar(9) default _utf8'a'": ("a", True), "varchar(9) default ('a')": (None, False),
    "varchar(9) default 'a' 'b'": ("ab", True),
    "enum('new','old') default 'old'": ("old", True), "enum('new','old') not null": ("new", True),
    "enum('new','old') default 'OLD'": (None, False), "set('a') default 'a'": (None, False),
    "date default '2026-02-03'": ("2026-02-03", True), "date default '2026-02-30'": (None, False),
    "date default '0000-00-00'": (None, False), "datetime default '2026-02-03 04:05:06'": ("2026-02-03 04:05:06", True),
    "datetime not null": (None, False), "timestamp default '2026-02-03 04:05:06'": (None, False),
    "timestamp": (None, False), "int default 5 check (n > 1)": ("5", True), "int auto_increment": (None, False),
    "int as (1 + 1)": (None, False), "serial": (None, False), "json default ('{}')": (None, False),
    "bigint default 0x10": (None, False), "int default 1e3": (None, False),
    f"decimal(38,1) default {'9' * 37}.5": ("9" * 37 + ".5", True), f"decimal(38,1) default {'9' * 38}": (None, False),
}  # fmt: skip


@together("definition", ADDED)
def test_which_defaults_are_certain(definition: str) -> None:
    (found,) = altered(f"alter table a add column if not exists n {definition}").added
    assert (found.name, found.fill, not found.uncertain, found.if_new) == ("n", *ADDED[definition], True)


@together(
    "clauses",
    ["add n int", "add timestamp_ timestamp null", "add key n (a)", "add constraint c check (x > 'default')",
     "add vector index (v)", "add period for system_time (a, b)"],
)  # fmt: skip
def test_what_adds_no_values(clauses: str) -> None:
    assert altered(f"alter table a {clauses}").added == ()


def test_several_columns_in_parentheses() -> None:
    change = altered("ALTER TABLE `shop`.`a` ADD (n INT DEFAULT 5, KEY (n), m DECIMAL(4, 1) NOT NULL, o INT)")
    assert change.added == (Added("n", "int", "5"), Added("m", "decimal", "0.0"))


@together(
    "data_type, kind, fill, value",
    [
        (DataType(Kind.TINYINT), "int", "300", None),
        (DataType(Kind.BIGINT), "decimal", "1.00", None),
        (DataType(Kind.BIGINT), "varchar", "5", None),
        (DataType(Kind.BOOLEAN), "tinyint", "1", "1"),
        (DataType(Kind.DECIMAL, 10, 2), "int", "5", "5.00"),
        (DataType(Kind.DECIMAL, 4, 1), "decimal", "1.55", None),
        (DataType(Kind.DOUBLE), "decimal", "0.10", "0.10"),
        (DataType(Kind.STRING), "decimal", "0.10", None),
        (DataType(Kind.VARCHAR, 2), "varchar", "abc", None),
        (DataType(Kind.TIMESTAMP, 3), "datetime", "2026-01-02 03:04:05", "2026-01-02 03:04:05.000"),
        (DataType(Kind.TIME, 6), "time", "03:04:05", "03:04:05.000000"),
        (DataType(Kind.DATE), "datetime", "2026-01-02 03:04:05", None),
        (DataType(Kind.JSON), "text", "", None),
    ],
)
def test_a_value_in_a_column_of_the_messages_type(data_type: DataType, kind: str, fill: str, value: str | None) -> None:
    assert as_value(data_type, kind, fill) == value
