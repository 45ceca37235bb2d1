"""Schema changes one by one: what a crash leaves of them, and that the last one costs what the first one does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from together import together

from cdc.errors import ChangeRefused, EngineError, StateError
from cdc.flow.attempt import Attempts
from cdc.flow.refusal_judge import RefusalJudge
from cdc.schema import (
    AddColumn,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.state.store import LocalStore

SCHEMA = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))
A, B, REFUSED = (TableId("shop", name) for name in ("a", "b", "refused"))
AROUND = (RenameTable(A, B), RenameTable(B, A), RenameTable(A, B))


class Crash(Exception):
    """The process died."""


class Sink:
    """Remembers what it was given; dies at that change, refuses tables of one name."""

    def __init__(self, dies_at: int = -1) -> None:
        self.done: list[SchemaChange] = []
        self._dies_at = dies_at

    def __call__(self, changes: Sequence[SchemaChange]) -> None:
        if any(change.table == REFUSED for change in changes):
            raise ChangeRefused("not here")
        if len(self.done) == self._dies_at:
            raise Crash
        self.done += changes


class LeavesOut(RefusalJudge):
    """Whatever is refused."""

    def __init__(self) -> None:
        pass

    def can_skip(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        return False

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        return True


def test_an_error_of_the_state_directory_is_no_refused_change(tmp_path: Path) -> None:
    def lost(changes: Sequence[SchemaChange]) -> None:
        if len(changes) > 1:
            raise ChangeRefused("one of them")
        raise StateError("another run has begun")

    with pytest.raises(StateError, match="another run has begun"):
        Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {}, [CreateTable(A, SCHEMA)] * 2, lost)


@together("dies_at", range(4))
def test_what_was_carried_out_before_a_crash_is_not_again(tmp_path: Path, dies_at: int) -> None:
    changes = (CreateTable(A, SCHEMA), CreateTable(REFUSED, SCHEMA), *AROUND)
    attempts = Attempts(LocalStore(tmp_path), LeavesOut())
    first, second, third = Sink(dies_at), Sink(), Sink()
    with pytest.raises(Crash):
        attempts.apply(7, {}, changes, first)
    done, refused = Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {}, changes, second)
    assert (*first.done, *second.done) == tuple(done) == (changes[0], *AROUND)
    assert refused == [changes[1]]
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {}, changes, third)
    assert third.done == []


def test_what_is_noted_grows_with_the_changes_and_not_with_their_square(tmp_path: Path) -> None:
    def noted(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        sizes = 0

        class Counting(LocalStore):
            def write(self, name: str, data: bytes) -> None:
                nonlocal sizes
                super().write(name, data)
                sizes += len(data)

        tables = [CreateTable(TableId("shop", f"t{number}"), SCHEMA) for number in range(count)]
        Attempts(Counting(folder), LeavesOut()).apply(1, {}, [CreateTable(REFUSED, SCHEMA), *tables], Sink())
        return sizes + (folder / "attempted.jsonl").stat().st_size

    assert noted(80) < 5 * noted(20)


def test_a_batch_with_other_changes_does_not_repeat_a_rename(tmp_path: Path) -> None:
    first, second = Sink(dies_at=2), Sink()
    changes = (CreateTable(A, SCHEMA), *AROUND)
    with pytest.raises(Crash):
        Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {}, changes, first)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {}, (*changes, CreateTable(A, SCHEMA)), second)
    assert (*first.done, *second.done) == (*changes, CreateTable(A, SCHEMA))


def test_columns_exchange_names_once_where_the_batch_has_other_changes_meanwhile(tmp_path: Path) -> None:
    """Columns of one type: the table looks the same after it, and a second exchange would take the first one back."""
    columns = tuple(Column(name, DataType.parse("INT")) for name in ("id", "a", "b"))
    swap = RenameColumns(A, (("a", "b"), ("b", "a")))
    before, first, second = {A: TableSchema(columns, ("id",))}, Sink(dies_at=1), Sink()
    with pytest.raises(Crash):
        Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, (swap, CreateTable(B, SCHEMA)), first)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, (swap,), second)
    assert (*first.done, *second.done) == (swap,)


@pytest.mark.parametrize("dies_at", [None, 0, 1])
def test_columns_that_exchange_names_twice_have_their_own_again(tmp_path: Path, dies_at: int | None) -> None:
    """Each sink takes a second call for the same changes of a batch for a repeat, as after a crash."""
    swap = RenameColumns(A, (("a", "b"), ("b", "a")))
    columns = tuple(Column(name, DataType.parse("INT")) for name in ("id", "a", "b"))
    before, calls = {A: TableSchema(columns, ("id",))}, list[Sequence[SchemaChange]]()

    def apply(changes: Sequence[SchemaChange]) -> None:
        calls.append(list(changes))
        if len(calls) - 1 == dies_at:
            raise Crash

    changes = [swap, swap, CreateTable(B, SCHEMA)]
    if dies_at is not None:
        with pytest.raises(Crash):
            Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, changes, apply)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, changes, apply)
    assert calls == ([[swap, swap]] if dies_at == 0 else []) + [[swap, swap], [CreateTable(B, SCHEMA)]] + (
        [[CreateTable(B, SCHEMA)]] if dies_at == 1 else []
    )


def test_a_column_is_not_dropped_again_once_another_one_has_its_name(tmp_path: Path) -> None:
    """A server refuses the last change as it carries it out, after the others."""
    kind = DataType.parse("INT")
    columns = ["a", "b"]

    def apply(changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            match change:
                case DropColumn(name=name):
                    columns.remove(name)
                case RenameColumn(old_name=old, new_name=new):
                    columns[columns.index(old)] = new
                case _:
                    raise ChangeRefused("invalid default value")

    before = {A: TableSchema((Column("id", kind, False), Column("a", kind), Column("b", kind)), ("id",))}
    changes = [DropColumn(A, "a"), RenameColumn(A, "b", "a"), AddColumn(A, Column("c", kind))]
    done, refused = Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, changes, apply)
    assert (columns, done, refused) == (["a"], changes[:2], changes[2:])


def test_a_rename_is_not_repeated_where_other_changes_came_before_it_meanwhile(tmp_path: Path) -> None:
    """Crashes, each with other changes of the batch: what each of them left is known."""
    more, most, new = (CreateTable(TableId("shop", name), SCHEMA) for name in "cde")
    sinks, changes = (Sink(dies_at=1), Sink(dies_at=1), Sink()), (RenameTable(A, B), new, RenameTable(B, A))
    for these, sink in ((changes, sinks[0]), ((more, *changes), sinks[1])):
        with pytest.raises(Crash):
            Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {A: SCHEMA}, these, sink)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, {A: SCHEMA}, (most, more, *changes), sinks[2])
    assert [each for sink in sinks for each in sink.done] == [changes[0], more, most, *changes[1:]]


@pytest.mark.parametrize("steps", [1, 2])
def test_a_change_is_made_again_where_another_table_has_got_the_name_meanwhile(tmp_path: Path, steps: int) -> None:
    """What an earlier try has done there, it has done to the table of that name that the batch drops or renames now."""
    c, d = (TableId("shop", name) for name in "cd")
    added = AddColumn(B, Column("y", DataType.parse("INT")))
    before, first, second = dict.fromkeys((A, B, c), SCHEMA), Sink(dies_at=2), Sink()
    changes = (added, RenameTable(A, d), CreateTable(A, SCHEMA))
    with pytest.raises(Crash):
        Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, changes, first)
    names = {1: (RenameTable(c, B),), 2: (RenameTable(c, A), RenameTable(A, B))}[steps]
    edited = (RenameTable(A, d), DropTable(B), *names, added)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, edited, second)
    assert second.done == [*edited[1:]]


@pytest.mark.parametrize("change", [RenameColumns(A, (("a", "b"), ("b", "a"))), RenameTable(A, B)])
def test_a_change_that_a_crash_left_unnoted_is_the_first_call_whatever_came_before_it_meanwhile(
    tmp_path: Path, change: SchemaChange
) -> None:
    """A sink takes a call for a repeat when it is its last one: columns of one type had their own names again."""
    columns = tuple(Column(name, DataType.parse("INT")) for name in ("id", "a", "b"))
    before, calls = {A: TableSchema(columns, ("id",))}, list[Sequence[SchemaChange]]()

    def killed(changes: Sequence[SchemaChange]) -> None:
        calls.append(list(changes))
        raise Crash

    with pytest.raises(Crash):
        Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, [change], killed)
    more = [CreateTable(TableId("shop", "c"), SCHEMA), change]
    done, _ = Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, more, calls.append)
    assert (calls, done) == ([[change], [change], more[:1]], more)
    Attempts(LocalStore(tmp_path), LeavesOut()).apply(7, before, more, killed)
