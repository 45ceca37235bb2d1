"""Our messages about schema changes of recorded binlogs against those that Debezium, Canal and Maxwell made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from recorded import announced, differences, theirs
from together import together

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropTable,
    RenameTable,
    SourceStatement,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import Announced
from connectors.kafka.delivery.announcing import respelled_keys
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.encoding.schema_messages import SchemaMessage, schema_messages
from connectors.kafka.sink_options import KafkaSinkOptions

DEBEZIUM = {
    r"source\.version": "ours is another tool",
    r"ts_ms": "when the message was written",
    r".*\.(charsetName|defaultCharsetName)": "the table's default is not told; of ENUM and SET, Debezium tells it",
    r".*\.defaultValueExpression": "Debezium tells the epoch for a default that is computed",
    r".*\.comment": "comments are told with include-comments.enabled",
}
CANAL = {
    r"id|ts": "numbers of Canal's own batches, and when the message was written",
}
MAXWELL = {
    r"ts|position": "Maxwell read another run of the workload than the binlog is of",
    r"(old|def)\.charset": "the table's default is not told",
}
"""Where messages may differ, and why."""


def messages(changes: Sequence[Announced], value_format: str, **options: Any) -> list[SchemaMessage]:
    wanted = {
        "type": "kafka", "properties.bootstrap.servers": "x:1", "value.format": value_format,
        "sink.schema-changes": "topic", **options,
    }  # fmt: skip
    return list(schema_messages(changes, KafkaSinkOptions.model_validate(wanted), Naming("dbz", "1"), 0))


def values(found: Sequence[SchemaMessage], database: str = "shop") -> list[Any]:
    told = [json.loads(message.value) for message in found if message.table.database == database]
    return [value.get("payload", value) for value in told]


def unexplained(mine: Any, real: Any, exceptions: dict[str, str]) -> list[Any]:
    pairs = zip(mine, real, strict=True)
    found = [(number, *each) for number, (a, b) in enumerate(pairs) for each in differences("", a, b)]
    return [each for each in found if not any(re.fullmatch(pattern, each[1][1:]) for pattern in exceptions)]


@pytest.mark.parametrize("with_schema", [False, True], ids=["plain", "schema"])
def test_they_are_debeziums(with_schema: bool) -> None:
    prefix = "dbzs" if with_schema else "dbz"
    real = [record for record in theirs("debezium-schema-changes.jsonl") if record["topic"] == prefix]
    option = {"debezium-json.include-schema.enabled": with_schema}
    found = messages(announced("mysql"), "debezium-json", **option)
    assert json.loads(found[-1].key or b"") == json.loads(real[-1]["key"])
    wanted = [json.loads(record["value"]) for record in real]
    if with_schema:
        assert json.loads(found[-1].value)["schema"] == wanted[-1]["schema"]
        found = [
            message for message in found if json.loads(message.value)["payload"]["tableChanges"][0]["type"] != "ALTER"
        ]
        wanted = [value["payload"] for value in wanted]
    for value in wanted:
        value["source"]["name"] = "dbz"
    assert unexplained(values(found), wanted, DEBEZIUM) == []


def test_they_are_canals() -> None:
    wanted = [each for each in theirs("canal-json.jsonl") if each["isDdl"] and each["table"]]
    found = messages(announced("mariadb"), "canal-json")
    assert unexplained(values(found), [each for each in wanted if each["database"] == "shop"], CANAL) == []


def test_they_are_maxwells() -> None:
    wanted = [each for each in theirs("maxwell-json.jsonl") if each["type"].startswith("table-")]
    found = messages(announced("mariadb"), "maxwell-json")
    assert unexplained(values(found), [each for each in wanted if each["database"] == "shop"], MAXWELL) == []
    types = next(each["def"] for each in wanted if each["table"] == "all_types")
    mine = values(found, "types_db")[-1]["def"]
    assert unexplained(mine["columns"], types["columns"], {}) == []


T, U = TableId("shop", "t"), TableId("shop", "u")
INT = Column("id", DataType.parse("INT"), False, source_type="int")
SCHEMA = TableSchema((INT,), ("id",))
WIDER = TableSchema((INT, Column("n", DataType.parse("STRING"))), ("id",))


def said(sql: str, begin: int = 4) -> SourceStatement:
    return SourceStatement(sql, "binlog.000001", begin, begin + 50, 1_700_000_000_000, 1)


def test_a_statement_about_several_tables_is_a_message_for_each() -> None:
    swap = said("RENAME TABLE t TO x, u TO t, x TO u")
    x = TableId("shop", "x")
    steps = [(T, x, SCHEMA), (U, T, WIDER), (x, U, SCHEMA)]
    changes = [Announced(RenameTable(a, b, statement=swap), schema, schema) for a, b, schema in steps]
    told = values(messages(changes, "maxwell-json"))
    names = [(each["type"], each["old"]["table"], each["def"]["table"], len(each["def"]["columns"])) for each in told]
    assert names == [("table-alter", "t", "x", 1), ("table-alter", "u", "t", 2), ("table-alter", "x", "u", 1)]
    ddl = [each["ddl"] for each in values(messages(changes, "debezium-json"))]
    assert ddl == [f"RENAME TABLE `shop`.`{a.table}` TO `shop`.`{b.table}`" for a, b, _ in steps]
    (one,) = values(messages(changes, "canal-json"))
    assert (one["type"], one["sql"]) == ("RENAME", swap.sql)
    assert len(messages(changes, "canal-json", **{"sink.schema-changes": "inline"})) == 2, "each topic has its own"
    gone = said("DROP DATABASE shop", 90)
    drops = [Announced(DropTable(table, statement=gone), SCHEMA, None) for table in (T, U)]
    assert [each["type"] for each in values(messages(drops, "maxwell-json"))] == ["database-drop"]
    assert [(each["type"], each["table"]) for each in values(messages(drops, "canal-json"))] == [("QUERY", "")]
    ddl = [each["ddl"] for each in values(messages(drops, "debezium-json"))]
    assert ddl == ["DROP TABLE `shop`.`t`", "DROP TABLE `shop`.`u`"]


def test_what_no_statement_did_is_told_by_debezium_alone() -> None:
    created = Announced(CreateTable(T, SCHEMA), None, SCHEMA)
    again = Announced(CreateTable(T, SCHEMA), SCHEMA, SCHEMA)
    copied = Announced(TruncateTable(T, copied=True), SCHEMA, SCHEMA)
    column = Announced(AddColumn(T, WIDER.columns[1]), SCHEMA, WIDER)
    changes = [created, again, copied]
    told = values(messages(changes, "debezium-json"))
    assert [(each["source"]["snapshot"], each["ddl"]) for each in told] == [
        ("true", "CREATE TABLE `shop`.`t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)")
    ]
    assert values(messages([column], "debezium-json"))[0]["ddl"] is None
    assert messages(changes, "canal-json") == messages([column], "maxwell-json") == []


def test_an_emptied_table_is_told_as_each_tool_does() -> None:
    emptied = Announced(TruncateTable(T, statement=said("TRUNCATE t")), SCHEMA, SCHEMA)
    assert messages([emptied], "debezium-json") == messages([emptied], "maxwell-json") == []
    assert values(messages([emptied], "canal-json"))[0]["type"] == "TRUNCATE"
    (found,) = messages([emptied], "debezium-json", **{"debezium-json.skipped.operations": "none"})
    value = json.loads(found.value)
    assert (found.key, found.of_rows, value["op"], value["before"], value["after"]) == (None, True, "t", None, None)
    assert (value["source"]["pos"], value["source"]["table"]) == (4, "t")


@together(
    "given, told",
    [
        ({"topic": "all", "sink.schema-changes.topic": "all"}, "would go to all, a topic of rows"),
        ({"topic": "shop", "topic.prefix": "shop"}, "would go to shop, a topic of rows"),
        ({"sink.tableId-to-topic.mapping": r"shop.\.*:schema-changes"}, "would go to schema-changes, a topic of rows"),
        ({"sink.schema-changes.topic": "cdc-fences"}, "for fences alone"),
        ({"sink.schema-changes": "inline", "sink.schema-changes.topic": "x"}, "has no effect"),
    ],
)
def test_the_topic_of_schema_changes_is_for_them_alone(given: dict[str, str], told: str) -> None:
    options = {"type": "kafka", "properties.bootstrap.servers": "x:1", "sink.schema-changes": "topic", **given}
    (remark,) = KafkaSinkOptions.model_validate(options).problems()
    assert told in remark.message


@together(
    "before, after, warned",
    [
        ("INT", "BIGINT", ["debezium-avro"]), ("VARCHAR(9)", "STRING", []),
        ("INT", "STRING", ["json", "debezium-avro"]),
        ("DECIMAL(9, 2)", "DECIMAL(9, 3)", ["json", "debezium-avro"]),
    ],
)  # fmt: skip
def test_keys_that_are_written_otherwise_from_here_on(before: str, after: str, warned: list[str]) -> None:
    old, new = (TableSchema((Column("id", DataType.parse(kind), False),), ("id",)) for kind in (before, after))
    change = AlterColumnType(T, new.columns[0])
    found = [name for name in ("json", "debezium-avro") if list(respelled_keys([Announced(change, old, new)], name))]
    assert found == warned
    assert list(respelled_keys([Announced(change, old, TableSchema(old.columns, ()))], "json")) == [T]
