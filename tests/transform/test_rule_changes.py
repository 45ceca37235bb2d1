"""Schema changes of the source through a rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from together import together
from transform_rules import TABLE, rule

from cdc.errors import TransformError
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
    SchemaChange,
    TableSchema,
    TruncateTable,
)
from cdc.transform.rule_edits import altered
from cdc.transform.rule_types import typing_of
from cdc.transform.rules import rule_changes


def column(name: str, kind: str, *, nullable: bool = True) -> Column:
    return Column(name, DataType.parse(kind), nullable=nullable)


SCHEMA = TableSchema(
    (column("id", "INT", nullable=False), column("name", "VARCHAR(10)"), column("age", "SMALLINT")), ("id",)
)
STAR = rule(projection=r"\*, UPPER(name) AS loud", filter="age > 0")
EXPLICIT = rule(projection="id, name, age + 1 AS next_age")
ADD = AddColumn(TABLE, column("gender", "TINYINT"), Position(after="name"))
WIDER = AlterColumnType(TABLE, column("age", "DECIMAL(10, 2)"), SCHEMA.column("age"))


def test_an_added_column_follows_under_a_star_at_its_place() -> None:
    (change,) = rule_changes(STAR, SCHEMA, ADD)
    assert isinstance(change, AddColumn)
    assert change.column == ADD.column
    assert change.position == Position(after="name")


def test_an_added_last_column_stays_before_what_the_rule_computes() -> None:
    (change,) = rule_changes(STAR, SCHEMA, AddColumn(TABLE, column("z", "INT")))
    assert isinstance(change, AddColumn)
    assert change.position == Position(after="age")


def test_an_explicit_projection_does_not_take_an_added_column() -> None:
    assert rule_changes(EXPLICIT, SCHEMA, ADD) == []


def test_a_renamed_column_is_renamed_under_a_star() -> None:
    made = rule(projection="*")
    assert rule_changes(made, SCHEMA, RenameColumn(TABLE, "age", "years")) == [RenameColumn(TABLE, "age", "years")]


def test_a_type_that_only_the_source_tells_apart_follows() -> None:
    """Equal schemas: an ENUM with other labels, in an ALTER or in another table of the same rule."""
    made, schema = (
        rule(projection="*"),
        TableSchema((Column("e", DataType.parse("VARCHAR(2)"), source_type="enum('a')"),)),
    )
    more = replace(schema.column("e"), source_type="enum('a','b')")
    (change,) = rule_changes(made, schema, AlterColumnType(TABLE, more, schema.column("e")))
    assert isinstance(change, AlterColumnType)
    found = [typing_of(made, each).schema.own_types for each in (schema, TableSchema((more,)))]
    assert found == [(("enum('a')", ""),), (("enum('a','b')", ""),)]


def test_an_edited_rule_that_computes_a_column_leaves_its_own_type() -> None:
    """A sink with the source's types would take no other text than the labels."""
    column_e = Column("e", DataType.parse("STRING"), source_type="enum('a')")
    schema = TableSchema((*SCHEMA.columns, column_e), SCHEMA.primary_key)
    before, after = (typing_of(rule(projection=text), schema).schema for text in ("*", r"\*, CONCAT(e, '-') AS e"))
    (change,) = altered(TABLE, before, after)
    assert isinstance(change, AlterColumnType)
    assert (change.column.type, change.column.source_type) == (column_e.type, "")
    assert altered(TABLE, after, before) == []


def test_a_renamed_key_column_follows() -> None:
    changes = rule_changes(rule(projection="*"), SCHEMA, RenameColumn(TABLE, "id", "nr"))
    assert RenameColumn(TABLE, "id", "nr") in changes


@together(
    "made, change, said",
    [
        (EXPLICIT, RenameColumn(TABLE, "name", "title"), "renamed the column name to title"),
        (EXPLICIT, DropColumn(TABLE, "age"), "dropped the column age"),
        (STAR, RenameColumn(TABLE, "name", "title"), "renamed the column name to title"),
        (STAR, DropColumn(TABLE, "age"), "dropped the column age"),
        (rule(mask={"name": "HASH"}), DropColumn(TABLE, "name"), "dropped the column name"),
        (rule(primary_keys="name"), DropColumn(TABLE, "name"), "dropped the column name"),
        (rule(projection="id, UPPER(name) AS n"), AlterColumnType(TABLE, column("name", "BYTES")), "changed the table"),
    ],
)
def test_a_column_that_the_rule_names_cannot_go(made: object, change: SchemaChange, said: str) -> None:
    with pytest.raises(TransformError, match=said) as caught:
        rule_changes(made, SCHEMA, change)  # type: ignore[arg-type]
    assert "shop.orders" in str(caught.value)
    assert "rule.yaml:1:" in str(caught.value)
    assert "change the rule" in str(caught.value)


def test_a_dropped_column_follows_under_a_star() -> None:
    assert rule_changes(rule(filter="age > 1"), SCHEMA, DropColumn(TABLE, "name")) == [DropColumn(TABLE, "name")]
    assert rule_changes(rule(projection="id, age"), SCHEMA, DropColumn(TABLE, "name")) == []


def test_a_new_type_reaches_what_is_computed_from_the_column() -> None:
    found = {change.column.name: str(change.column.type) for change in rule_changes(EXPLICIT, SCHEMA, WIDER)
             if isinstance(change, AlterColumnType)}  # fmt: skip
    assert found == {"next_age": "DECIMAL(13, 2)"}
    under_star = rule_changes(rule(projection=r"\*, 'x' AS age"), SCHEMA, WIDER)
    assert under_star == []


def test_a_dropped_key_column_under_a_star_leaves_the_key_without_it() -> None:
    schema = TableSchema(SCHEMA.columns, ("id", "name"))
    changes = rule_changes(rule(projection="*"), schema, DropColumn(TABLE, "name"))
    assert DropColumn(TABLE, "name") in changes
    new_key = rule_changes(rule(projection="*"), SCHEMA, AlterPrimaryKey(TABLE, ("id", "name")))
    assert AlterPrimaryKey(TABLE, ("id", "name")) in new_key
    assert rule_changes(rule(primary_keys="id"), SCHEMA, AlterPrimaryKey(TABLE, ("name",)))[-1:] != [
        AlterPrimaryKey(TABLE, ("name",))
    ]


@together("change", [TruncateTable(TABLE), DropTable(TABLE), AlterTableComment(TABLE, "x")])
def test_what_is_about_the_whole_table_is_passed_on(change: SchemaChange) -> None:
    assert rule_changes(EXPLICIT, SCHEMA, change) == [change]


def test_a_created_table_has_the_rules_schema() -> None:
    assert rule_changes(EXPLICIT, SCHEMA, CreateTable(TABLE, SCHEMA)) == [
        CreateTable(TABLE, typing_of(EXPLICIT, SCHEMA).schema)
    ]
