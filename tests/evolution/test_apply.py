"""Schemas after changes, and that a diff, applied, gives the schema it was made for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from together import together

from cdc.errors import EngineError
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.diff import Hints, Table, diff
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

T, U = TableId("shop", "t"), TableId("shop", "u")
A, B = Column("a", DataType.parse("INT")), Column("b", DataType.parse("STRING"))
X = Column("x", DataType.parse("DATE"))
AB = TableSchema((A, B), ("a",), "both")


@together(
    "change, expected",
    [
        (CreateTable(T, TableSchema((X,))), TableSchema((X,))),
        (DropTable(T), None),
        (TruncateTable(T), AB),
        (RenameTable(T, U), AB),
        (AlterTableComment(T, "c"), replace(AB, comment="c")),
        (AlterPrimaryKey(T, ("b", "a")), replace(AB, primary_key=("b", "a"))),
        (AddColumn(T, X), replace(AB, columns=(A, B, X))),
        (AddColumn(T, X, Position(first=True)), replace(AB, columns=(X, A, B))),
        (AddColumn(T, X, Position(after="a")), replace(AB, columns=(A, X, B))),
        (AlterColumnType(T, replace(X, name="a"), A), replace(AB, columns=(replace(X, name="a"), B))),
        (RenameColumn(T, "a", "x"), TableSchema((replace(A, name="x"), B), ("x",), "both")),
        (RenameColumn(T, "a", "a"), AB),
        (DropColumn(T, "a"), TableSchema((B,), (), "both")),
    ],
)
def test_a_schema_after_a_change(change: SchemaChange, expected: TableSchema | None) -> None:
    assert apply_change(AB, change) == expected


@together(
    "change, reason",
    [
        (AddColumn(T, A), "column a cannot be added"),
        (AddColumn(T, X, Position(after="y")), "no column y"),
        (AlterColumnType(T, X), "no column x"),
        (RenameColumn(T, "y", "z"), "no column y"),
        (RenameColumn(T, "a", "b"), "cannot be renamed to b"),
        (DropColumn(T, "A"), "no column A"),
        (AlterPrimaryKey(T, ("x",)), "no column x"),
        (RenameTable(T, U), "cannot be renamed to shop.u"),
        (AddColumn(TableId("shop", "v"), X), "not known"),
    ],
)
def test_a_change_that_does_not_fit_names_the_table_and_the_reason(change: SchemaChange, reason: str) -> None:
    with pytest.raises(EngineError, match=reason) as caught:
        apply_changes({T: AB, U: AB}, [change])
    assert caught.value.where == str(change.table)


def test_two_tables_swap_names() -> None:
    temporary, other = TableId("shop", "temporary"), TableSchema((X,))
    swap = [RenameTable(T, temporary), RenameTable(U, T), RenameTable(temporary, U)]
    before = {T: AB, U: other}
    assert apply_changes(before, swap) == {T: other, U: AB}
    assert before == {T: AB, U: other}


def test_tables_come_and_go() -> None:
    assert apply_changes({}, [CreateTable(T, AB), RenameTable(T, U), CreateTable(T, AB), DropTable(U)]) == {T: AB}


_TYPES = st.sampled_from(["INT", "BIGINT", "VARCHAR(10)", "STRING", "DATE", "DECIMAL(5, 2)"]).map(DataType.parse)
_COLUMN = st.builds(
    Column, st.just(""), _TYPES, st.booleans(), st.sampled_from([None, "1"]), st.sampled_from(["", "c"])
)


@st.composite
def _schemas(draw: st.DrawFn) -> TableSchema:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    key = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    columns = tuple(replace(draw(_COLUMN), name=name) for name in names)
    return TableSchema(columns, tuple(key), draw(st.sampled_from(["", "t"])))


def _unordered(schema: TableSchema) -> tuple[frozenset[Column], tuple[str, ...], str]:
    return frozenset(schema.columns), schema.primary_key, schema.comment


@given(_schemas(), _schemas(), st.sampled_from([T, U]), st.data())
def test_a_diff_applied_gives_the_new_schema(
    old: TableSchema, new: TableSchema, name: TableId, data: st.DataObject
) -> None:
    # Any column may come from any old one, or be new: renames, swaps, drop and add under the same name included.
    sources = data.draw(st.permutations(old.names))
    kept = data.draw(st.integers(0, min(len(old.names), len(new.names))))
    origins = {column: sources[n] if n < kept else None for n, column in enumerate(new.names)}
    result = apply_changes({T: old}, diff(Table(T, old), Table(name, new), Hints(origins)))
    assert result.keys() == {name}
    assert _unordered(result[name]) == _unordered(new)


@given(_schemas(), _schemas())
def test_without_hints_columns_are_matched_by_name(old: TableSchema, new: TableSchema) -> None:
    result = apply_changes({T: old}, diff(Table(T, old), Table(T, new)))
    assert _unordered(result[T]) == _unordered(new)
    assert apply_changes({}, diff(None, Table(T, new))) == {T: new}
    assert apply_changes({T: old}, diff(Table(T, old), None)) == {}


@given(_schemas())
def test_equal_schemas_have_no_changes(one: TableSchema) -> None:
    assert diff(Table(T, one), Table(T, one)) == []
