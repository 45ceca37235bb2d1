"""Schema changes in the order in which a sink refuses the fewest."""

from __future__ import annotations

from dataclasses import replace

from cdc.evolution.order import table_changes_first
from cdc.schema import (
    AddColumn,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    TableId,
    TableSchema,
    TruncateTable,
)

A, B, ALL = TableId("shop", "a"), TableId("shop", "b"), TableId("ods", "all")
INT, TEXT = DataType.parse("INT"), DataType.parse("STRING")
ID = Column("id", INT, nullable=False)
BEFORE = TableSchema((ID, Column("v", INT)), ("id",))
MORE = TableSchema((ID, Column("v", TEXT), Column("more", INT)), ("id",))


def test_changes_of_columns_wait_for_those_of_their_table() -> None:
    more, gone, named = AddColumn(A, Column("more", INT)), DropColumn(B, "v"), RenameColumn(A, "more", "less")
    assert table_changes_first([more, gone, named]) == [more, gone, named]
    assert table_changes_first([more, gone, RenameTable(A, ALL), RenameTable(B, A), DropColumn(A, "id")]) == [
        RenameTable(A, ALL), replace(more, table=ALL), RenameTable(B, A), replace(gone, table=A), DropColumn(A, "id"),
    ]  # fmt: skip
    assert table_changes_first([more, TruncateTable(A), named, gone, DropTable(A)]) == [
        TruncateTable(A),
        gone,
        DropTable(A),
    ]
    copying = [more, CreateShadow(A, MORE), TruncateTable(A, copied=True), named]
    assert table_changes_first(copying) == copying
    other = CreateShadow(B, MORE)
    assert table_changes_first([more, CreateShadow(A, MORE), named, other, DropTable(A)]) == [other, DropTable(A)]
    of_another = [RenameTable(A, ALL), CreateTable(A, BEFORE), DropTable(A)]
    assert table_changes_first([CreateShadow(A, MORE), *of_another]) == of_another
    renamed = [RenameTable(A, ALL), replace(named, table=ALL)]
    assert table_changes_first([CreateShadow(A, MORE), named, RenameTable(A, ALL)]) == renamed
    in_turn = [more, CreateShadow(A, None), named, CreateShadow(A, None), RenameTable(A, ALL)]
    assert table_changes_first([*in_turn, DropTable(ALL)]) == [RenameTable(A, ALL), DropTable(ALL)]
    assert table_changes_first([*in_turn, CreateShadow(ALL, MORE)]) == [
        RenameTable(A, ALL), replace(more, table=ALL), replace(named, table=ALL), CreateShadow(ALL, MORE),
    ]  # fmt: skip
    at_one_place = [CreateShadow(A, MORE), named, RenameTable(A, ALL), DropTable(B)]
    assert table_changes_first(at_one_place) == [*renamed, DropTable(B)]
    in_place = [more, CreateShadow(A, MORE)]
    assert table_changes_first(in_place) == in_place
    others = [RenameTable(A, ALL), named, CreateShadow(A, None), RenameTable(B, A), CreateShadow(A, MORE)]
    assert table_changes_first(others) == others


def test_columns_of_a_table_that_is_there_are_added_after_the_changes_of_their_table() -> None:
    """An earlier try of the batch may have dropped or renamed it already."""
    completed, more = CreateTable(A, MORE), AddColumn(A, Column("other", INT))
    assert table_changes_first([completed, more, RenameTable(A, ALL), CreateTable(A, BEFORE)], {A}) == [
        RenameTable(A, ALL), replace(completed, table=ALL), replace(more, table=ALL), CreateTable(A, BEFORE),
    ]  # fmt: skip
    dropped = [DropTable(A), CreateTable(A, BEFORE), RenameTable(A, ALL)]
    assert table_changes_first([completed, *dropped], {A}) == dropped
    assert table_changes_first([completed, RenameTable(A, ALL)]) == [completed, RenameTable(A, ALL)]
