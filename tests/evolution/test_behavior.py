"""What each behavior makes of each change, and which changes the filters let through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from together import together

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change
from cdc.evolution.behavior import Behavior, Policy, behave
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

T = TableId("ods", "members")
INT, BIGINT, DOUBLE, TINYINT = (DataType.parse(text) for text in ("INT", "BIGINT", "DOUBLE", "TINYINT"))
ID, NAME, AGE = Column("id", INT, nullable=False), Column("name", DataType.parse("VARCHAR(20)")), Column("age", INT)
MEMBERS = TableSchema((ID, NAME, AGE), ("id",))
ADD = AddColumn(T, Column("gender", TINYINT, nullable=False, default="1"), Position(after="name"))
ALTER = AlterColumnType(T, Column("age", DOUBLE), AGE)
RENAME, DROP = RenameColumn(T, "age", "years"), DropColumn(T, "age")
COMMENT, TRUNCATE, DROP_TABLE = AlterTableComment(T, "c"), TruncateTable(T), DropTable(T)
CHANGES: tuple[SchemaChange, ...] = (ADD, ALTER, RENAME, DROP, COMMENT, TRUNCATE, DROP_TABLE)


def done(policy: Policy | str, change: SchemaChange, sink: TableSchema = MEMBERS) -> tuple[SchemaChange, ...]:
    policy = Policy(Behavior(policy)) if isinstance(policy, str) else policy
    return behave(policy, change, sink, apply_change(MEMBERS, change)).changes


@together("behavior", ["evolve", "try_evolve"])
@together("change", CHANGES)
def test_evolve_carries_every_change_out_as_it_is(behavior: str, change: SchemaChange) -> None:
    assert done(behavior, change) == (change,)


@together("change", CHANGES)
def test_ignore_carries_nothing_out_and_says_so(change: SchemaChange) -> None:
    outcome = behave(Policy(Behavior.IGNORE), change, MEMBERS, apply_change(MEMBERS, change))
    assert outcome.changes == ()
    assert "is ignored" in outcome.held


@together("policy", [Policy(Behavior.IGNORE), Policy(Behavior.EVOLVE, exclude=("column",))])
@together("change", [RENAME, DROP, ALTER])
def test_a_column_that_is_left_without_values_takes_null(policy: Policy, change: SchemaChange) -> None:
    filled = Column("age", INT, nullable=False)
    sink = replace(MEMBERS, columns=(ID, NAME, filled))
    assert done(policy, change, sink) == (AlterColumnType(T, AGE, filled),)
    keyed = replace(sink, primary_key=("age",))
    if change is ALTER:
        assert done(policy, change, keyed) == ()
        return
    with pytest.raises(ChangeRefused, match=r"the sink's table keeps \(age\)"):
        done(policy, change, keyed)


def test_a_name_that_the_sink_has_gets_the_values_of_the_new_column() -> None:
    added = AddColumn(T, AGE)
    for change in (RenameColumn(T, "name", "age"), added):
        held = behave(Policy(Behavior.IGNORE), change, MEMBERS, None).held
        assert "values of age get into the sink's column of that name" in held
    assert behave(Policy(Behavior.IGNORE), RenameColumn(T, "id", "ID"), MEMBERS, None).held.endswith(
        "id keeps its name"
    )


@together("change", CHANGES)
def test_exception_stops_at_any_change(change: SchemaChange) -> None:
    with pytest.raises(ChangeRefused, match=r"schema\.change\.behavior is exception"):
        done("exception", change)


def test_lenient_adds_columns_last_and_nullable_with_their_default() -> None:
    assert done("lenient", ADD) == (AddColumn(T, Column("gender", TINYINT, default="1")),)


def test_lenient_widens_a_type_and_never_narrows_it() -> None:
    assert done("lenient", ALTER) == (ALTER,)
    narrow = AlterColumnType(T, Column("age", TINYINT), AGE)
    assert done("lenient", narrow) == ()
    assert "stays wide enough" in behave(Policy(), narrow, MEMBERS, apply_change(MEMBERS, narrow)).held


@together(
    "old, new, own",
    [
        ("enum('a')", ("STRING", "enum('a','b')"), "enum('a','b')"),
        ("enum('a')", ("VARCHAR(60)", "varchar(60)"), ""),
        ("enum('a')", ("STRING", ""), ""),
        ("", ("STRING", "enum('a')"), None),
        ("text", ("STRING", "text"), None),
    ],
)
def test_lenient_widens_what_only_the_source_tells_apart(old: str, new: tuple[str, str], own: str | None) -> None:
    """Beside another default, which alone changes nothing here. `own` is the type for the values of both."""
    before = Column("e", DataType.parse("STRING"), default="a", source_type=old)
    after = Column("e", DataType.parse(new[0]), source_type=new[1])
    found = behave(
        Policy(Behavior.LENIENT), AlterColumnType(T, after, before), TableSchema((ID, before), ("id",)), None
    ).changes
    assert [each.column.source_type for each in found if isinstance(each, AlterColumnType)] == (
        [] if own is None else [own]
    )
    readded = behave(Policy(Behavior.LENIENT), AddColumn(T, after), TableSchema((ID, before), ("id",)), None).changes
    assert len(readded) == len(found)


def test_lenient_keeps_the_old_column_of_a_rename() -> None:
    assert done("lenient", RENAME) == (AddColumn(T, Column("years", INT)),)
    neither = replace(MEMBERS, columns=(ID, NAME))
    assert done("lenient", RENAME, neither) == (AddColumn(T, Column("years", INT)),), "the sink did not get age"
    required = TableSchema((ID, NAME, Column("age", INT, nullable=False)), ("id",))
    assert done("lenient", RENAME, required)[1:] == (AlterColumnType(T, AGE, required.columns[2]),)


def test_lenient_keeps_a_dropped_column_nullable() -> None:
    assert done("lenient", DROP) == ()
    required = TableSchema((ID, NAME, Column("age", INT, nullable=False)), ("id",))
    assert done("lenient", DROP, required) == (AlterColumnType(T, AGE, required.columns[2]),)
    again = behave(Policy(Behavior.LENIENT), AddColumn(T, AGE), MEMBERS, MEMBERS)
    assert (again.changes, again.held) == ((), "add.column age INT: existing rows keep what they have in age")


def test_lenient_empties_and_drops_no_table_but_when_nothing_is_excluded() -> None:
    assert done("lenient", TRUNCATE) == done("lenient", DROP_TABLE) == ()
    nothing_excluded = Policy(exclude=())
    assert done(nothing_excluded, TRUNCATE) == (TRUNCATE,)
    assert done(nothing_excluded, DROP_TABLE) == (DROP_TABLE,)


def test_lenient_renames_a_key_column_as_keys_are_never_null() -> None:
    assert done("lenient", RenameColumn(T, "id", "uid")) == (RenameColumn(T, "id", "uid"),)


def test_lenient_takes_a_dropped_column_out_of_the_key() -> None:
    both = TableSchema((ID, NAME, Column("age", INT, nullable=False)), ("id", "age"))
    assert behave(Policy(), DROP, both, apply_change(both, DROP)).changes == (
        AlterPrimaryKey(T, ("id",)),
        AlterColumnType(T, AGE, both.columns[2]),
    )


def test_a_change_of_the_key_cannot_be_ignored() -> None:
    change = AlterPrimaryKey(T, ("id", "name"))
    assert done("lenient", change) == done("evolve", change) == (change,)
    with pytest.raises(ChangeRefused, match=r"the sink's table keeps \(id\)"):
        done("ignore", change)
    with pytest.raises(ChangeRefused, match="could not be told apart"):
        done(Policy(Behavior.EVOLVE, exclude=("alter",)), change)


@together(
    "include, exclude, allowed",
    [
        (None, None, "create add alter rename drop truncate drop_table comment rename_table"),
        (None, ("drop",), "create add alter rename truncate comment rename_table"),
        (None, ("drop.column",), "create add alter rename truncate drop_table comment rename_table"),
        (None, ("table",), "add alter rename drop"),
        (("column",), None, "create add alter rename drop"),
        (("column", "truncate.table"), ("drop", "alter"), "create add rename truncate"),
        (("add",), ("create",), "add"),
        ((), None, "create"),
        (("all",), None, "create add alter rename drop truncate drop_table comment rename_table"),
        (None, ("all",), ""),
    ],
)
def test_filters_take_names_and_parts_of_names(
    include: tuple[str, ...] | None, exclude: tuple[str, ...] | None, allowed: str
) -> None:
    changes = {
        "create": CreateTable(T, MEMBERS), "add": ADD, "alter": ALTER, "rename": RENAME, "drop": DROP,
        "truncate": TRUNCATE, "drop_table": DROP_TABLE, "comment": COMMENT, "rename_table": RenameTable(T, T),
    }  # fmt: skip
    policy = Policy(Behavior.EVOLVE, include, exclude)
    assert " ".join(name for name, change in changes.items() if policy.allows(change)) == allowed


def test_what_is_left_out_is_held_back_with_a_word_about_its_effect() -> None:
    outcome = behave(Policy(Behavior.EVOLVE, exclude=("drop",)), DROP, MEMBERS, apply_change(MEMBERS, DROP))
    assert outcome.held == "drop.column age is left out: age stays, NULL from now on"


def test_changes_are_fitted_to_a_table_that_did_not_get_earlier_ones() -> None:
    sink = TableSchema((ID, NAME, AGE, Column("gender", INT)), ("id",))  # gender was dropped in the source
    assert done("evolve", ADD, sink) == ()
    assert done("evolve", AddColumn(T, Column("gender", BIGINT)), sink) == (
        AlterColumnType(T, Column("gender", BIGINT), sink.columns[3]),
    )
    behind = AddColumn(T, Column("x", INT), Position(after="age"))
    assert done("evolve", behind, TableSchema((ID, NAME), ("id",))) == (AddColumn(T, Column("x", INT)),)
    assert done("evolve", DROP, TableSchema((ID, NAME), ("id",))) == ()
    assert done("evolve", RENAME, TableSchema((ID, NAME, AGE, Column("years", INT)), ("id",))) == ()
