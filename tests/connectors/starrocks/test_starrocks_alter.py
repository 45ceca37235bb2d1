"""Schema changes as statements, from the tables as they are: what is missing, and nothing when all is done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from printed_steps import Query, printed
from together import together

from cdc.errors import ChangeRefused
from cdc.evolution.steps import ChangeRemark, Statement
from cdc.evolution.table import ActualColumn, Layout
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from connectors.shared.streamload.sql_types import SqlType
from connectors.starrocks.catalog import StarRocksTable
from connectors.starrocks.dialect import StarRocksDialect
from connectors.starrocks.options import StarRocksSinkOptions
from connectors.starrocks.settings import dialect
from connectors.starrocks.types import TypeRules

ORDERS, LOG = TableId("shop", "orders"), TableId("shop", "log")
ID = Column("id", DataType.parse("BIGINT"), nullable=False)
NOTE = Column("note", DataType.parse("VARCHAR(10)"))
KEYED = TableSchema((NOTE, ID), ("id",))
COPY_ID = TableId("shop", f"cdc_rebuild_{TableId('shop', 'orders').digest}")
COPY = f"`shop`.`{COPY_ID.table}`"

Made = ActualColumn[SqlType]
Printed = Statement | Query | ChangeRemark


def column(name: str, type_: str, length: int | None = None, scale: int | None = None, **more: object) -> Made:
    return ActualColumn(name, SqlType(type_, length, scale), **more)  # type: ignore[arg-type]


def orders(*more: ActualColumn) -> StarRocksTable:
    columns = (column("id", "BIGINT", nullable=False), column("note", "VARCHAR", 40), *more)
    return StarRocksTable(ORDERS, columns, ("id",))


def layout(*tables: StarRocksTable) -> Layout[SqlType]:
    return Layout(tables, ["shop"])


def steps(there: Layout[SqlType], *changes: SchemaChange, rules: StarRocksDialect | None = None) -> list[Printed]:
    return printed(rules or StarRocksDialect(), there, changes)


def statements(there: Layout[SqlType], *changes: SchemaChange, rules: StarRocksDialect | None = None) -> list[str]:
    return [step.sql for step in steps(there, *changes, rules=rules) if isinstance(step, Statement)]


def test_a_table_with_a_key_has_its_key_columns_first() -> None:
    rules = StarRocksDialect(TypeRules(), 4, (("replication_num", "1"),))
    schema = TableSchema((NOTE, ID), ("id",), comment="it's")
    assert statements(Layout(), CreateTable(ORDERS, schema), rules=rules) == [
        "CREATE DATABASE IF NOT EXISTS `shop`",
        "CREATE TABLE IF NOT EXISTS `shop`.`orders` (`id` BIGINT NOT NULL, `note` VARCHAR(40) NULL) PRIMARY KEY (`id`) "
        "COMMENT 'it\\'s' DISTRIBUTED BY HASH (`id`) BUCKETS 4 PROPERTIES ('replication_num' = '1')",
    ]


def test_the_order_of_a_key_is_kept() -> None:
    schema = TableSchema((NOTE, ID), ("id", "note"))
    (sql,) = statements(layout(), CreateTable(ORDERS, schema))
    assert "(`id` BIGINT NOT NULL, `note` VARCHAR(40) NOT NULL) PRIMARY KEY (`id`, `note`)" in sql


def test_a_table_without_a_key_is_sorted_by_its_first_column_that_can_be() -> None:
    schema = TableSchema((Column("x", DataType.parse("DOUBLE")), Column("n", DataType.parse("INT"), default="7")))
    (sql,) = statements(layout(), CreateTable(LOG, schema))
    assert sql == (
        "CREATE TABLE IF NOT EXISTS `shop`.`log` (`n` INT NULL DEFAULT '7', `x` DOUBLE NULL) DUPLICATE KEY (`n`) "
        "DISTRIBUTED BY RANDOM"
    )


def test_a_table_that_cannot_be_sorted_is_refused() -> None:
    with pytest.raises(ChangeRefused, match="needs a column to sort"):
        statements(layout(), CreateTable(LOG, TableSchema((Column("x", DataType.parse("DOUBLE")),))))


@together("name", ["__op", "__OP", "__row"])
def test_reserved_names_are_refused(name: str) -> None:
    odd = Column(name, DataType.parse("INT"))
    for change in (CreateTable(LOG, TableSchema((ID, odd), ("id",))), AddColumn(ORDERS, odd)):
        with pytest.raises(ChangeRefused, match="reserved"):
            statements(layout(orders()), change)


def test_an_existing_table_gets_the_columns_that_are_missing() -> None:
    schema = TableSchema((ID, NOTE, Column("qty", DataType.parse("INT"), default="1")), ("id",))
    assert statements(layout(orders()), CreateTable(ORDERS, schema)) == [
        "ALTER TABLE `shop`.`orders` ADD COLUMN `qty` INT NULL DEFAULT '1'"
    ]


@together(
    "there, reason",
    [
        (StarRocksTable(ORDERS, orders().columns), r"exists with the primary key \(\)"),
        (StarRocksTable(ORDERS, (column("id", "INT"),), ("id",)), "exists with type INT, which does not hold"),
        (StarRocksTable(ORDERS, (column("id", "BIGINT"),), foreign_model="UNIQUE"), "UNIQUE KEY table"),
    ],
)
def test_an_existing_table_that_does_not_fit_is_refused(there: StarRocksTable, reason: str) -> None:
    with pytest.raises(ChangeRefused, match=reason):
        statements(layout(there), CreateTable(ORDERS, KEYED))


TEXT = AlterColumnType(ORDERS, Column("note", DataType.parse("STRING")), NOTE)
QTY = AddColumn(ORDERS, Column("qty", DataType.parse("INT UNSIGNED"), default="3", comment="how many"))


@together(
    "change, expected",
    [
        (QTY, ["ALTER TABLE `shop`.`orders` ADD COLUMN `qty` BIGINT NULL DEFAULT '3' COMMENT 'how many'"]),
        (TEXT, ["ALTER TABLE `shop`.`orders` MODIFY COLUMN `note` VARCHAR(1048576) NULL"]),
        (RenameColumn(ORDERS, "note", "no`te"), ["ALTER TABLE `shop`.`orders` RENAME COLUMN `note` TO `no``te`"]),
        (DropColumn(ORDERS, "note"), ["ALTER TABLE `shop`.`orders` DROP COLUMN `note`"]),
        (RenameTable(ORDERS, LOG), ["ALTER TABLE `shop`.`orders` RENAME `log`"]),
        (DropTable(ORDERS), ["DROP TABLE IF EXISTS `shop`.`orders`"]),
        (AlterTableComment(ORDERS, "c"), ["ALTER TABLE `shop`.`orders` COMMENT = 'c'"]),
        (CreateTable(ORDERS, KEYED), []),
    ],
)
def test_a_change_and_the_same_change_again(change: SchemaChange, expected: list[str]) -> None:
    there = layout(orders())
    assert statements(there, change) == expected
    assert statements(there, change) == []


def test_truncate_is_harmless_again() -> None:
    assert statements(layout(orders()), TruncateTable(ORDERS)) == ["TRUNCATE TABLE `shop`.`orders`"]
    assert statements(layout(), TruncateTable(ORDERS)) == []


def test_columns_that_are_altered_may_need_a_job_and_tables_do_not() -> None:
    found = steps(layout(orders()), QTY, RenameTable(ORDERS, LOG))
    assert [step.job for step in found if isinstance(step, Statement)] == [True, False]


@together(
    "there, source, old, expected",
    [
        (column("c", "INT"), "BIGINT", "INT", "BIGINT"),
        (column("c", "BIGINT"), "INT", "BIGINT", None),
        (column("c", "DECIMAL", 10, 2), "DECIMAL(12, 4)", "DECIMAL(10, 2)", "DECIMAL(12, 4)"),
        (column("c", "FLOAT"), "DOUBLE", "FLOAT", "DOUBLE"),
        (column("c", "INT"), "VARCHAR(20)", "INT", "VARCHAR(80)"),
        (column("c", "DATE"), "TIMESTAMP", "DATE", "DATETIME"),
        (column("c", "VARCHAR", 80), "VARCHAR(10)", "VARCHAR(20)", None),
    ],
)
def test_values_keep_through_a_change_of_type(there: Made, source: str, old: str, expected: str | None) -> None:
    change = AlterColumnType(ORDERS, Column("c", DataType.parse(source)), Column("c", DataType.parse(old)))
    modified = f"ALTER TABLE `shop`.`orders` MODIFY COLUMN `c` {expected} NULL"
    assert statements(layout(orders(there)), change) == ([modified] if expected else [])


def test_a_modified_column_keeps_its_default() -> None:
    change = AlterColumnType(ORDERS, Column("c", DataType.parse("BIGINT"), default="9"))
    (sql,) = statements(layout(orders(column("c", "INT", default="7"))), change)
    assert sql.endswith("MODIFY COLUMN `c` BIGINT NULL DEFAULT '7'")


@together(
    "old, new, condition",
    [
        ("DOUBLE", "VARCHAR(64)", "`c` IS NOT NULL"),
        ("STRING", "JSON", "`c` IS NOT NULL"),
        ("VARCHAR(20)", "VARCHAR(10)", "char_length(`c`) > 10"),
        ("VARCHAR(20)", "CHAR(20)", "`c` LIKE '% '"),
        ("VARBINARY(20)", "VARBINARY(10)", "length(hex(`c`)) > 20"),
        ("VARBINARY(20)", "BINARY(20)", "`c` IS NOT NULL"),
        ("TIMESTAMP(6)", "TIMESTAMP(0)", "`c` IS NOT NULL"),
        ("TIMESTAMP_LTZ", "TIMESTAMP", "`c` IS NOT NULL"),
        ("TIMESTAMP", "DATE", "`c` IS NOT NULL"),
        ("DATE", "TIMESTAMP_LTZ", "`c` IS NOT NULL"),
        ("TIME", "TIME(3)", "`c` IS NOT NULL"),
        ("DOUBLE", "FLOAT", "`c` IS NOT NULL"),
        ("BIGINT", "INT", "`c` < -2147483648 OR `c` > 2147483647"),
        ("INT UNSIGNED", "INT", "`c` < -2147483648 OR `c` > 2147483647"),
        ("DECIMAL(10, 4)", "DECIMAL(10, 2)", "`c` <> round(`c`, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(4, 2)", "`c` >= 100 OR `c` <= -100"),
    ],
)
def test_rows_whose_values_the_source_may_have_changed_stand_against_it(old: str, new: str, condition: str) -> None:
    kind = TypeRules().column_type(DataType.parse(old), key=False)
    there = layout(orders(ActualColumn("c", kind)))
    change = AlterColumnType(ORDERS, Column("c", DataType.parse(new)), Column("c", DataType.parse(old)))
    first = steps(there, change)[0]
    assert isinstance(first, Query)
    assert first.sql == f"SELECT 1 FROM `shop`.`orders` WHERE {condition} LIMIT 1"


def test_a_type_that_values_do_not_survive_needs_a_column_without_values() -> None:
    change = AlterColumnType(ORDERS, Column("c", DataType.parse("INT")))
    check, *copy = steps(layout(orders(column("c", "VARCHAR", 40))), change)
    assert isinstance(check, Query)
    assert check.sql == "SELECT 1 FROM `shop`.`orders` WHERE `c` IS NOT NULL LIMIT 1"
    assert "may come out differently as INT" in check.reason
    assert len(copy) == 5
    digits = AlterColumnType(ORDERS, Column("c", DataType.parse("INT")), Column("c", DataType.parse("DECIMAL(5, 2)")))
    check = steps(layout(orders(column("c", "DECIMAL", 5, 2))), digits)[0]
    assert isinstance(check, Query)
    assert "StarRocks does not convert DECIMAL(5, 2) to INT" in check.reason


WIDE_ID = AlterColumnType(ORDERS, Column("id", DataType.parse("BIGINT UNSIGNED"), nullable=False))


def test_a_key_column_of_another_type_is_a_copy_that_takes_the_tables_name() -> None:
    there = layout(orders())
    assert statements(there, WIDE_ID) == [
        f"DROP TABLE IF EXISTS {COPY}",
        f"CREATE TABLE IF NOT EXISTS {COPY} (`id` LARGEINT NOT NULL, `note` VARCHAR(40) NULL) PRIMARY KEY (`id`) "
        "DISTRIBUTED BY HASH (`id`)",
        f"INSERT INTO {COPY} (`id`, `note`) SELECT CAST(`id` AS LARGEINT), `note` FROM `shop`.`orders`",
        f"ALTER TABLE `shop`.`orders` SWAP WITH `{COPY_ID.table}`",
        f"DROP TABLE IF EXISTS {COPY}",
    ]
    assert statements(there, WIDE_ID) == []


def test_a_copy_that_is_left_over_after_the_swap_is_dropped() -> None:
    there = layout(orders())
    statements(there, WIDE_ID)
    there.put(StarRocksTable(COPY_ID, orders().columns, ("id",)))
    assert statements(there, WIDE_ID) == [f"DROP TABLE IF EXISTS {COPY}"]


def test_a_longer_text_key_is_changed_in_place() -> None:
    there = StarRocksTable(ORDERS, (column("id", "VARCHAR", 40, nullable=False),), ("id",))
    change = AlterColumnType(ORDERS, Column("id", DataType.parse("VARCHAR(20)"), nullable=False))
    assert statements(layout(there), change) == ["ALTER TABLE `shop`.`orders` MODIFY COLUMN `id` VARCHAR(80) NOT NULL"]


def test_another_key_is_a_copy_with_that_key() -> None:
    there = layout(orders(column("price", "DECIMAL", 10, 2)))
    found = statements(there, AlterPrimaryKey(ORDERS, ("price", "id")))
    assert "(`price` VARCHAR(13) NOT NULL, `id` BIGINT NOT NULL, `note` VARCHAR(40) NULL)" in found[1]
    assert "SELECT CAST(`price` AS VARCHAR(13)), `id`, `note`" in found[2]
    assert statements(there, AlterPrimaryKey(ORDERS, ("price", "id"))) == []


def test_a_table_whose_changes_were_skipped_gets_its_first_key_by_a_re_snapshot() -> None:
    given = {"jdbc-url": "jdbc:mysql://fe:9030", "load-url": "fe:8030", "username": "u", "sink.keyless-changes": "skip"}
    rules = dialect(StarRocksSinkOptions.model_validate({"type": "starrocks", "password": "", **given}))
    there, change = replace(orders(), key=()), AlterPrimaryKey(ORDERS, ("id",))
    with pytest.raises(ChangeRefused, match="skipped") as refused:
        steps(layout(there), change, rules=rules)
    assert refused.value.resnapshot_helps
    assert statements(layout(there), change)


def test_a_key_that_is_dropped_leaves_a_table_that_keeps_every_row() -> None:
    found = statements(layout(orders()), AlterPrimaryKey(ORDERS, ()))
    assert "(`id` BIGINT NULL, `note` VARCHAR(40) NULL) DUPLICATE KEY (`id`)" in found[1]


def test_a_key_column_that_is_dropped_is_a_copy_without_it() -> None:
    there = StarRocksTable(ORDERS, (*orders().columns, column("shop", "INT", nullable=False)), ("id", "shop"))
    found = statements(layout(there), DropColumn(ORDERS, "shop"))
    assert "(`id`, `note`) SELECT `id`, `note`" in found[2]


def test_binary_columns_become_hexadecimal_text_in_a_key() -> None:
    found = statements(layout(orders(column("uid", "VARBINARY", 1_048_576))), AlterPrimaryKey(ORDERS, ("uid",)))
    assert "`uid` VARCHAR(1048576) NOT NULL" in found[1]
    assert "SELECT hex(`uid`)" in found[2]


def test_two_tables_swap_names_step_by_step() -> None:
    temporary = TableId("shop", "temporary")
    there = layout(orders(), StarRocksTable(LOG, (column("n", "INT"),)))
    swap = [RenameTable(ORDERS, temporary), RenameTable(LOG, ORDERS), RenameTable(temporary, LOG)]
    assert statements(there, *swap) == [
        "ALTER TABLE `shop`.`orders` RENAME `temporary`",
        "ALTER TABLE `shop`.`log` RENAME `orders`",
        "ALTER TABLE `shop`.`temporary` RENAME `log`",
    ]


def test_a_table_that_was_created_and_dropped_before_the_crash_is_left_alone() -> None:
    later = [AddColumn(LOG, NOTE), DropTable(LOG)]
    assert statements(layout(), *later) == []


@together(
    "change, reason",
    [
        (AddColumn(LOG, NOTE), "the table does not exist"),
        (RenameColumn(ORDERS, "nothing", "else"), "there is no column nothing"),
        (RenameColumn(ORDERS, "note", "id"), "that column exists"),
        (RenameTable(ORDERS, TableId("other", "orders")), "cannot move a table to another database"),
        (RenameTable(ORDERS, TableId("shop", "or\nders")), "a load cannot tell a name with a line end"),
        (CreateTable(TableId("shop", " orders"), KEYED), "or with spaces around it"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(change: SchemaChange, reason: str) -> None:
    with pytest.raises(ChangeRefused, match=reason):
        statements(layout(orders()), change)


def test_a_default_that_is_no_constant_is_said() -> None:
    added = AddColumn(ORDERS, Column("at", DataType.parse("TIMESTAMP"), default="CURRENT_TIMESTAMP"))
    remark, statement = steps(layout(orders()), added)
    assert isinstance(remark, ChangeRemark)
    assert "get NULL in at" in remark.text
    assert isinstance(statement, Statement)
    assert statement.sql.endswith("ADD COLUMN `at` DATETIME NULL")


def test_names_differ_only_by_more_than_case() -> None:
    assert statements(layout(orders()), AddColumn(ORDERS, Column("NOTE", DataType.parse("VARCHAR(5)")))) == []
