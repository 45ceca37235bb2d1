"""Planning of schema changes: pure, over what is there."""

from collections.abc import Mapping
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
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from connectors.doris.catalog import DorisTable
from connectors.doris.dialect import DorisDialect
from connectors.doris.options import DorisSinkOptions
from connectors.doris.settings import dialect
from connectors.doris.types import read_type
from connectors.shared.streamload.sql_types import SqlType

T = TableId("shop", "t")
Printed = Statement | Query | ChangeRemark


def col(text: str, **more: object) -> Column:
    name, _, kind = text.partition(" ")
    return Column(name, DataType.parse(kind), **more)  # type: ignore[arg-type]


def table(*columns: str, key: tuple[str, ...] = ("id",), model: str = "UNIQUE", comment: str = "") -> DorisTable:
    made = tuple(ActualColumn(name, read_type(kind)) for name, _, kind in (text.partition(" ") for text in columns))
    return DorisTable(T, made, key if model == "UNIQUE" else (), comment, model, key)


def steps_of(change: SchemaChange, layout: Layout[SqlType], properties: Mapping[str, str]) -> list[Printed]:
    return printed(DorisDialect(properties), layout, [change])


def plan(change: SchemaChange, *there: DorisTable, **properties: str) -> list[str]:
    layout = Layout(there)
    wanted = properties or {"replication_num": "1"}
    steps = steps_of(change, layout, wanted)
    again = [step for step in steps_of(change, layout, wanted) if isinstance(step, Statement)]
    assert again == [] or isinstance(change, TruncateTable), "a second time changes nothing"
    return [step.sql for step in steps if isinstance(step, Statement)]


PROPERTIES = "PROPERTIES ('enable_unique_key_merge_on_write' = 'true', 'light_schema_change' = 'true', "
HERE = table("id BIGINT", "a VARCHAR(40)", "b INT")


def test_a_table_with_a_key() -> None:
    schema = TableSchema(
        (col("a VARCHAR(10)"), col("id BIGINT"), col("n INT", default="5", comment="it's")), ("id",), "c"
    )
    assert plan(CreateTable(T, schema)) == [
        "CREATE DATABASE IF NOT EXISTS `shop`",
        "CREATE TABLE `shop`.`t` (`id` BIGINT NULL, `a` VARCHAR(40) NULL, `n` INT NULL DEFAULT '5' COMMENT 'it\\'s') "
        "UNIQUE KEY(`id`) COMMENT 'c' DISTRIBUTED BY HASH(`id`) BUCKETS AUTO "
        + PROPERTIES
        + "'replication_num' = '1')",
    ]


def test_a_table_without_a_key() -> None:
    (_, create) = plan(CreateTable(T, TableSchema((col("f DOUBLE"), col("s STRING")))))
    assert "KEY(" not in create
    assert "DISTRIBUTED BY RANDOM BUCKETS AUTO" in create
    assert "'enable_duplicate_without_keys_by_default' = 'true'" in create


def test_keys_come_first_in_the_order_of_the_key() -> None:
    schema = TableSchema((col("x INT"), col("a STRING"), col("b DOUBLE")), ("b", "a"))
    create = plan(CreateTable(T, schema))[-1]
    assert "(`b` VARCHAR(32) NULL, `a` VARCHAR(65533) NULL, `x` INT NULL) UNIQUE KEY(`b`, `a`)" in create


def test_names_are_quoted() -> None:
    odd = TableId("we`ird", "t able")
    created = plan(CreateTable(odd, TableSchema((col("a`b INT"),), ("a`b",))))
    assert created[0] == "CREATE DATABASE IF NOT EXISTS `we``ird`"
    assert created[1].startswith("CREATE TABLE `we``ird`.`t able` (`a``b` INT NULL) UNIQUE KEY(`a``b`)")


def test_properties_of_the_options_win() -> None:
    create = plan(CreateTable(T, TableSchema((col("id INT"),), ("id",))), light_schema_change="false")[-1]
    assert "'light_schema_change' = 'false'" in create


def test_a_table_that_is_there_gets_the_columns_it_lacks() -> None:
    schema = TableSchema((col("id BIGINT"), col("a VARCHAR(10)"), col("b INT"), col("c DATE")), ("id",))
    assert plan(CreateTable(T, schema), HERE) == ["ALTER TABLE `shop`.`t` ADD COLUMN `c` DATE NULL"]


@together(
    "schema, reason",
    [
        (TableSchema((col("id BIGINT"), col("b BIGINT")), ("id",)), "does not hold"),
        (TableSchema((col("id BIGINT"), col("a VARCHAR(10)")), ("a",)), "unique key"),
        (TableSchema((col("id BIGINT"),)), "unique key"),
        (TableSchema((col("id BIGINT"), col("__DORIS_x INT")), ("id",)), "Doris' own"),
        (TableSchema((col("id BIGINT"), replace(col("x INT"), name="a\nb")), ("id",)), "with a line end in its name"),
    ],
)
def test_tables_that_cannot_be_used(schema: TableSchema, reason: str) -> None:
    with pytest.raises(ChangeRefused, match=reason):
        plan(CreateTable(T, schema), HERE)


@together(
    "position, place",
    [
        (Position(), ""),
        (Position(first=True), " AFTER `id`"),
        (Position(after="ID"), " AFTER `id`"),
        (Position(after="A"), " AFTER `a`"),
        (Position(after="gone"), ""),
    ],
)
def test_an_added_column_never_stands_among_the_keys(position: Position, place: str) -> None:
    found = plan(AddColumn(T, col("x INT", default="7"), position), HERE)
    assert found == [f"ALTER TABLE `shop`.`t` ADD COLUMN `x` INT NULL DEFAULT '7'{place}"]


@together(
    "kind, default, written",
    [
        ("VARCHAR(9)", "it's", ' DEFAULT "it\'s"'),
        ("VARCHAR(9)", 'a "b"', " DEFAULT 'a \"b\"'"),
        ("VARCHAR(9)", r"a\b", ""),
        ("VARCHAR(30)", "current_timestamp", " DEFAULT 'current_timestamp'"),
    ],
)
def test_a_default_is_written_as_every_release_reads_it_or_left_out(kind: str, default: str, written: str) -> None:
    change = AddColumn(T, col(f"x {kind}", default=default))
    (sql,) = plan(change, HERE)
    assert sql.partition(" NULL")[2] == written
    remarks = [step for step in steps_of(change, Layout([HERE]), {}) if isinstance(step, ChangeRemark)]
    assert len(remarks) == (not written)


def test_a_column_that_is_there_already() -> None:
    assert plan(AddColumn(T, col("B INT")), HERE) == []
    with pytest.raises(ChangeRefused, match="does not hold"):
        plan(AddColumn(T, col("b STRING", comment="x")), table("id INT", "b INT"))


@together(
    "there, new, old, expected",
    [
        ("b INT", "b BIGINT", "b INT", ["MODIFY COLUMN `b` BIGINT NULL"]),
        ("b VARCHAR(40)", "b VARCHAR(20)", "b VARCHAR(10)", ["MODIFY COLUMN `b` VARCHAR(80) NULL"]),
        ("b VARCHAR(40)", "b STRING", "b VARCHAR(10)", ["MODIFY COLUMN `b` STRING NULL"]),
        ("b DECIMAL(10, 2)", "b DECIMAL(12, 3)", "b DECIMAL(10, 2)", ["MODIFY COLUMN `b` DECIMAL(12, 3) NULL"]),
        ("b INT", "b VARCHAR(20)", "b INT", ["MODIFY COLUMN `b` VARCHAR(80) NULL"]),
        ("b INT", "b VARCHAR(2)", "b INT", ["? `b` < -9 OR `b` > 99", "MODIFY COLUMN `b` VARCHAR(11) NULL"]),
        ("b BIGINT", "b CHAR(4)", "b BIGINT", ["? `b` < -999 OR `b` > 9999", "MODIFY COLUMN `b` VARCHAR(20) NULL"]),
        (
            "b DECIMAL(9, 2)",
            "b VARCHAR(4)",
            "b DECIMAL(9, 2)",
            ["? `b` < 0 OR `b` > 9.99", "MODIFY COLUMN `b` VARCHAR(16) NULL"],
        ),
        ("b FLOAT", "b DOUBLE", "b FLOAT", ["MODIFY COLUMN `b` DOUBLE NULL"]),
        ("b DATETIME(0)", "b TIMESTAMP(6)", "b TIMESTAMP(0)", ["MODIFY COLUMN `b` DATETIME(6) NULL"]),
        ("b BIGINT", "b BIGINT UNSIGNED", "b INT UNSIGNED", ["MODIFY COLUMN `b` LARGEINT NULL"]),
        ("b BIGINT", "b INT", "b SMALLINT", []),
        ("b BIGINT", "b SMALLINT", "b BIGINT", ["? `b` < -32768 OR `b` > 32767"]),
        ("b VARCHAR(40)", "b VARCHAR(5)", "b VARCHAR(10)", ["? char_length(`b`) > 5"]),
        ("b VARCHAR(40)", "b CHAR(10)", "b VARCHAR(10)", ["? `b` LIKE '% '"]),
        ("b STRING", "b BYTES", "b STRING", ["? `b` IS NOT NULL"]),
        ("b STRING", "b JSON", "b STRING", ["? `b` IS NOT NULL"]),
        ("b DATETIME(3)", "b TIMESTAMP(0)", "b TIMESTAMP(3)", ["? `b` IS NOT NULL"]),
        ("b DOUBLE", "b VARCHAR(10)", "b DOUBLE", ["? `b` IS NOT NULL", "COPY CAST(`b` AS VARCHAR(40))"]),
        ("b INT", "b DECIMAL(12, 2)", "b INT", ["COPY CAST(`b` AS DECIMAL(12, 2))"]),
        ("b BOOLEAN", "b INT", "b BOOLEAN", ["? `b` IS NOT NULL", "COPY CAST(`b` AS INT)"]),
        ("b STRING", "b INT", None, ["? `b` IS NOT NULL", "COPY CAST(`b` AS INT)"]),
    ],
)
def test_new_types(there: str, new: str, old: str | None, expected: list[str]) -> None:
    change = AlterColumnType(T, col(new), None if old is None else col(old))
    found = []
    for step in steps_of(change, Layout([table("id BIGINT", there)]), {}):
        if isinstance(step, Query):
            found.append("? " + step.sql.partition(" WHERE ")[2].removesuffix(" LIMIT 1"))
        elif isinstance(step, Statement) and step.sql.startswith("INSERT"):
            found.append("COPY " + step.sql.partition("SELECT `id`, ")[2].partition(" FROM")[0])
        elif isinstance(step, Statement) and "MODIFY" in step.sql:
            assert step.job
            found.append(step.sql.removeprefix("ALTER TABLE `shop`.`t` "))
    assert found == expected


def test_modify_repeats_what_is_there() -> None:
    there = DorisTable(
        T,
        (
            ActualColumn("id", read_type("INT"), nullable=False),
            ActualColumn("b", read_type("INT"), nullable=False, default="7", comment="c"),
            ActualColumn("at", read_type("DATETIME"), default="CURRENT_TIMESTAMP"),
        ),
        ("id",),
        model="UNIQUE",
        sorted_by=("id",),
    )
    begin = "ALTER TABLE `shop`.`t` MODIFY COLUMN "
    sorted_by = replace(there, key=(), model="DUPLICATE", distribution=("b",))
    assert plan(AlterColumnType(T, col("id BIGINT")), sorted_by) == [f"{begin}`id` BIGINT KEY NOT NULL"]
    assert plan(AlterColumnType(T, col("b BIGINT", comment="c")), there) == [
        f"{begin}`b` BIGINT NOT NULL DEFAULT '7' COMMENT 'c'"
    ]
    assert plan(AlterColumnType(T, col("at TIMESTAMP(3)")), there) == [
        f"{begin}`at` DATETIME(3) NULL DEFAULT CURRENT_TIMESTAMP"
    ]


def test_a_column_that_says_where_a_row_is_changes_by_a_copy() -> None:
    wider = plan(AlterColumnType(T, col("id BIGINT UNSIGNED")), HERE)
    assert "(`id`, `a`, `b`) SELECT CAST(`id` AS LARGEINT), `a`, `b` FROM `shop`.`t`" in wider[2]
    spread = table("a INT", "b INT", key=("a",), model="DUPLICATE")
    dropped = plan(DropColumn(T, "b"), replace(spread, distribution=("b",)))
    assert "SELECT `a` FROM `shop`.`t`" in dropped[2]


def test_comments() -> None:
    assert plan(AlterColumnType(T, col("b INT", comment="new"), col("b INT")), HERE) == [
        "ALTER TABLE `shop`.`t` MODIFY COLUMN `b` COMMENT 'new'"
    ]
    assert plan(AlterTableComment(T, "new"), HERE) == ["ALTER TABLE `shop`.`t` MODIFY COMMENT 'new'"]


def test_columns_are_renamed_and_dropped() -> None:
    assert plan(RenameColumn(T, "a", "z"), HERE) == ["ALTER TABLE `shop`.`t` RENAME COLUMN `a` `z`"]
    assert plan(DropColumn(T, "A"), HERE) == ["ALTER TABLE `shop`.`t` DROP COLUMN `a`"]
    assert plan(RenameColumn(T, "gone", "b"), HERE) == []
    assert plan(DropColumn(T, "gone"), HERE) == []
    with pytest.raises(ChangeRefused, match="exists"):
        plan(RenameColumn(T, "a", "b"), HERE)


def test_a_new_key_is_a_copy_in_the_place_of_the_table() -> None:
    dropped, create, insert, swap = plan(AlterPrimaryKey(T, ("a", "b")), HERE)
    assert dropped.startswith("DROP TABLE IF EXISTS `shop`.`cdc_rebuild_")
    assert "(`a` VARCHAR(40) NULL, `b` INT NULL, `id` BIGINT NULL) UNIQUE KEY(`a`, `b`)" in create
    assert "(`a`, `b`, `id`) SELECT `a`, `b`, `id` FROM `shop`.`t`" in insert
    assert swap.startswith("ALTER TABLE `shop`.`t` REPLACE WITH TABLE `cdc_rebuild_")
    assert swap.endswith("PROPERTIES ('swap' = 'false')")


def test_a_table_whose_changes_were_skipped_gets_its_first_key_by_a_re_snapshot() -> None:
    there = table("id BIGINT", "a INT", model="DUPLICATE")
    change, given = AlterPrimaryKey(T, ("id",)), {"fenodes": "fe", "username": "u", "sink.keyless-changes": "skip"}
    options = DorisSinkOptions.model_validate({"type": "doris", **given})
    with pytest.raises(ChangeRefused, match="skipped") as refused:
        printed(dialect(options), Layout((there,)), [change])
    assert refused.value.resnapshot_helps
    assert len(plan(change, there)) == 4


def test_numbers_that_a_copy_spells_otherwise_become_no_key_over_rows() -> None:
    there = table("id BIGINT", "f FLOAT", "d DOUBLE", "n DECIMAL(9,2)", "s STRING")
    steps = steps_of(AlterPrimaryKey(T, ("f", "n", "s", "id")), Layout((there,)), {"replication_num": "1"})
    assert isinstance(steps[0], Query)
    assert "column f: keys are text here" in steps[0].reason
    assert not any(isinstance(step, Query) for step in steps[1:])


def test_a_key_column_goes_by_a_copy() -> None:
    there = table("id BIGINT", "k INT", "a INT", key=("id", "k"))
    create = plan(DropColumn(T, "k"), there)[1]
    assert "(`id` BIGINT NULL, `a` INT NULL) UNIQUE KEY(`id`)" in create
    without = plan(DropColumn(T, "id"), HERE)[1]
    assert "DISTRIBUTED BY RANDOM" in without


def test_tables_are_renamed_truncated_and_dropped() -> None:
    assert plan(RenameTable(T, TableId("shop", "u")), HERE) == ["ALTER TABLE `shop`.`t` RENAME `u`"]
    assert plan(TruncateTable(T), HERE) == ["TRUNCATE TABLE `shop`.`t`"]
    assert plan(DropTable(T), HERE) == ["DROP TABLE IF EXISTS `shop`.`t`"]
    assert plan(DropTable(T)) == []
    with pytest.raises(ChangeRefused, match="another database"):
        plan(RenameTable(T, TableId("other", "t")), HERE)


@together(
    "change",
    [
        AddColumn(T, col("x INT")),
        AlterColumnType(T, col("x INT")),
        RenameColumn(T, "a", "b"),
        AlterPrimaryKey(T, ("a",)),
        AlterTableComment(T, "x"),
        RenameTable(T, TableId("shop", "u")),
    ],
)
def test_a_table_that_is_gone_is_not_guessed(change: SchemaChange) -> None:
    with pytest.raises(ChangeRefused, match="does not exist"):
        plan(change)
