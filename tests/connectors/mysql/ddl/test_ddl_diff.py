"""Definitions compared: the changes, carried out on the old schema, give the new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ddl_tables import apply_changes, tables
from hypothesis import given
from hypothesis import strategies as st
from together import together

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
    Kind,
    Position,
    RenameColumn,
    RenameColumns,
    RenameTable,
    TableId,
    TableSchema,
)
from connectors.mysql.ddl.defaults import fill_text
from connectors.mysql.ddl.work import diff
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

T, U = TableId("shop", "t"), TableId("shop", "u")
INT, TEXT = DataType(Kind.INT), DataType(Kind.STRING)


def table(*names: str, key: tuple[str, ...] = ()) -> MySqlTable:
    return MySqlTable(T, tuple(MySqlColumn(name, "int") for name in names), key)


def expected_schema(new: MySqlTable, origins: Mapping[str, str | None]) -> TableSchema:
    """`new`'s schema; added columns have what rows already there get as their default."""
    columns = [
        replace(column, default=fill_text(mine)) if origins[mine.name] is None else column
        for column, mine in zip(table_schema(new).columns, new.columns, strict=True)
    ]
    return replace(table_schema(new), columns=tuple(columns))


def unordered(schema: TableSchema) -> tuple[frozenset[Column], tuple[str, ...], str]:
    return frozenset(schema.columns), schema.primary_key, schema.comment


@given(tables(T), st.sampled_from([T, U]).flatmap(tables), st.data())
def test_applying_a_diff_to_the_old_schema_gives_the_new_one(
    old: MySqlTable, new: MySqlTable, data: st.DataObject
) -> None:
    # Any column may come from any old one, or be new: renames, swaps, drop and add under the same name included.
    sources = data.draw(st.permutations([column.name for column in old.columns]))
    kept = data.draw(st.integers(0, min(len(old.columns), len(new.columns))))
    names = [column.name for column in new.columns]
    origins = {name: sources[n] if n < kept else None for n, name in enumerate(names)}
    result = apply_changes({T: table_schema(old)}, diff(old, new, origins=origins))
    assert result.keys() == {new.id}
    assert unordered(result[new.id]) == unordered(expected_schema(new, origins))


@given(tables(T), tables(T))
def test_without_origins_columns_are_matched_by_name(old: MySqlTable, new: MySqlTable) -> None:
    names = {column.name for column in old.columns}
    origins = {column.name: column.name if column.name in names else None for column in new.columns}
    assert diff(old, new) == diff(old, new, origins=origins)


@given(tables(T))
def test_equal_tables_have_no_changes(one: MySqlTable) -> None:
    assert diff(one, one) == []


def test_a_new_table_and_a_table_that_is_gone() -> None:
    one = table("a", key=("a",))
    assert diff(None, one) == [CreateTable(T, table_schema(one))]
    assert diff(one, None) == [DropTable(T)]
    assert diff(None, None) == []


def test_a_changed_type_comes_before_the_new_name() -> None:
    old, new = table("a", "b"), MySqlTable(T, (MySqlColumn("a", "int"), MySqlColumn("c", "text")))
    assert diff(old, new, origins={"a": "a", "c": "b"}) == [
        AlterColumnType(T, Column("b", TEXT), Column("b", INT)),
        RenameColumn(T, "b", "c"),
    ]


def test_columns_that_exchange_names_are_renamed_at_the_same_moment() -> None:
    old = table("a", "b", "x")
    assert diff(old, old, origins={"a": "b", "b": "a", "x": "x"}) == [RenameColumns(T, (("a", "b"), ("b", "a")))]
    cased = diff(old, table("B", "a", "y"), origins={"B": "a", "a": "b", "y": "x"})
    assert cased == [RenameColumns(T, (("a", "B"), ("b", "a"))), RenameColumn(T, "x", "y")]


def test_a_chain_of_renames_is_one_change() -> None:
    old, new = table("a", "b"), table("b", "c")
    assert diff(old, new, origins={"b": "a", "c": "b"}) == [RenameColumns(T, (("a", "b"), ("b", "c")))]


def test_added_columns_say_where_they_go() -> None:
    changes = diff(table("a", "b"), table("x", "a", "y", "z", "b", "w"))
    assert [(change.column.name, change.position) for change in changes if isinstance(change, AddColumn)] == [
        ("x", Position(first=True)),
        ("y", Position(after="a")),
        ("z", Position(after="y")),
        ("w", Position()),
    ]


def test_when_no_column_stays_the_new_ones_come_before_the_old_ones_go() -> None:
    changes = diff(table("a"), table("a"), origins={"a": None})
    assert changes == [RenameColumn(T, "a", "a_1"), AddColumn(T, Column("a", INT)), DropColumn(T, "a_1")]


def test_a_key_that_only_follows_its_columns_is_no_change_of_the_key() -> None:
    old, new = table("a", "b", key=("a",)), table("c", "b", key=("c",))
    assert diff(old, new, origins={"c": "a", "b": "b"}) == [RenameColumn(T, "a", "c")]
    assert diff(old, table("b"), origins={"b": "b"}) == [DropColumn(T, "a")]


def test_columns_of_an_old_key_are_dropped_after_the_new_key_is_there() -> None:
    """With what is left of the old key, a sink would make one row of several."""
    old = table("a", "b", "x", "c", key=("a", "b"))
    assert diff(old, table("a", "c", key=("c",))) == [
        DropColumn(T, "x"),
        AlterColumnType(T, Column("a", INT), Column("a", INT, nullable=False)),
        AlterColumnType(T, Column("c", INT, nullable=False), Column("c", INT)),
        AlterPrimaryKey(T, ("c",)),
        DropColumn(T, "b"),
    ]


def test_a_new_key_makes_its_columns_not_null() -> None:
    old, new = table("a"), table("a", key=("a",))
    assert diff(old, new) == [
        AlterColumnType(T, Column("a", INT, nullable=False), Column("a", INT)),
        AlterPrimaryKey(T, ("a",)),
    ]


def test_a_table_is_renamed_first_and_commented_last() -> None:
    old = table("a")
    new = replace(table("a", "b"), id=U, comment="c")
    assert diff(old, new) == [RenameTable(T, U), AddColumn(U, Column("b", INT)), AlterTableComment(U, "c")]


@together(
    "column, fill",
    [
        (MySqlColumn("x", "int"), None),
        (MySqlColumn("x", "int", nullable=False), "0"),
        (MySqlColumn("x", "int", nullable=False, default="7"), "7"),
        (MySqlColumn("x", "decimal", 5, 2, nullable=False), "0.00"),
        (MySqlColumn("x", "double", nullable=False), "0"),
        (MySqlColumn("x", "varchar", 5, nullable=False), ""),
        (MySqlColumn("x", "enum", labels=("p", "q"), nullable=False), "p"),
        (MySqlColumn("x", "set", labels=("p", "q"), nullable=False), ""),
        (MySqlColumn("x", "bit", 3, nullable=False), "b'0'"),
        (MySqlColumn("x", "year", nullable=False), "0000"),
        (MySqlColumn("x", "time", 2, nullable=False), "00:00:00.00"),
        (MySqlColumn("x", "date", nullable=False), None),
        (MySqlColumn("x", "int", nullable=False, generated=True), None),
    ],
)
def test_an_added_column_carries_what_rows_already_there_get(column: MySqlColumn, fill: str | None) -> None:
    old = table("a")
    (change,) = diff(old, replace(old, columns=(*old.columns, column)))
    assert isinstance(change, AddColumn)
    assert change.column.default == fill
