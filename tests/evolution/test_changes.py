"""Schema changes carried out: what is noted and not done again, and tables that are created side by side."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from together import together

from cdc.errors import ChangeRefused, SinkUnavailable, StateError
from cdc.evolution import operations as op
from cdc.evolution.journal import FILE, Journal
from cdc.evolution.session import SchemaSession, TableSession
from cdc.evolution.steps import PlannedChange, Statement, Step
from cdc.evolution.table import ActualColumn, ActualTable, Layout
from cdc.evolution.table_sink import SchemaChanges, creations, run_in_parallel
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropTable,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
)
from cdc.state.store import LocalStore
from cdc.testing.delivery_conformance import KEYED
from connectors.doris.catalog import DorisTable
from connectors.doris.dialect import DorisDialect
from connectors.shared.streamload.sql_types import SqlType

BIGINT = SqlType("BIGINT")


def table(name: str) -> TableId:
    return TableId("shop", name)


class System:
    """A system with tables that remembers what it was told; renames and creations of it are real."""

    def __init__(self, *names: str) -> None:
        self.tables = {table(name): name for name in names}
        self.told: list[str] = []
        self.rows = False
        self.dies_after: int | None = None
        self.opened = self.closed = 0

    @contextmanager
    def sessions(self) -> Iterator[SchemaSession[SqlType]]:
        self.opened += 1
        try:
            yield Session(self)
        finally:
            self.closed += 1


class Session(SchemaSession[SqlType]):
    def __init__(self, system: System) -> None:
        self._system = system

    @property
    def dialect(self) -> DorisDialect:
        return DorisDialect({})

    def read(self, tables: Sequence[TableId]) -> Layout[SqlType]:
        columns = (ActualColumn("id", BIGINT), ActualColumn("name", SqlType("VARCHAR", 256)))
        found: list[ActualTable[SqlType]] = [
            DorisTable(item, columns, ("id",), model="UNIQUE") for item in tables if item in self._system.tables
        ]
        return Layout(found, ["shop"])

    def execute(self, statement: Statement) -> None:
        system = self._system
        words = statement.sql.replace("`", "").replace("shop.", "").split()
        if words[:2] == ["ALTER", "TABLE"] and words[3] == "RENAME":
            system.tables[table(words[4])] = system.tables.pop(table(words[2]))
        elif words[:2] == ["CREATE", "TABLE"]:
            system.tables[table(words[2])] = "new"
        system.told.append(" ".join(words[:5]))
        if system.dies_after == len(system.told):
            raise SinkUnavailable("the answer is lost")

    def finds(self, query: str) -> bool:
        return self._system.rows


SWAP = [RenameTable(table("a"), table("t")), RenameTable(table("b"), table("a")), RenameTable(table("t"), table("b"))]


@pytest.mark.parametrize("dies_after", [1, 2, 3])
def test_a_swap_is_carried_out_once_whenever_the_process_dies(tmp_path: Path, dies_after: int) -> None:
    """Also between a statement and the note that it is done: which of the two names exists tells."""
    system, store = System("a", "b"), LocalStore(tmp_path)
    system.dies_after = dies_after
    with pytest.raises(SinkUnavailable):
        SchemaChanges(system.sessions, store).apply(3, SWAP)
    system.dies_after = None
    for _ in range(2):
        SchemaChanges(system.sessions, store).apply(3, SWAP)
    assert system.tables == {table("a"): "b", table("b"): "a"}
    assert len(system.told) == 3


def test_the_same_changes_in_a_later_batch_are_meant(tmp_path: Path) -> None:
    system, store = System("a", "b"), LocalStore(tmp_path)
    for batch in (3, 4):
        SchemaChanges(system.sessions, store).apply(batch, SWAP)
    assert system.tables == {table("a"): "a", table("b"): "b"}


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(StateError, match="cannot be read") as caught:
        Journal(LocalStore(tmp_path), 7, SWAP)
    assert caught.value.where.endswith(FILE)


def test_nothing_is_executed_when_a_later_change_cannot_be_done(tmp_path: Path) -> None:
    system = System("a")
    changes = [DropTable(table("a")), AddColumn(table("b"), Column("x", DataType.parse("INT")))]
    with pytest.raises(ChangeRefused, match="does not exist"):
        SchemaChanges(system.sessions, LocalStore(tmp_path)).apply(0, changes)
    assert system.told == []


def test_a_row_whose_value_is_not_certain_stands_against_a_change(tmp_path: Path) -> None:
    system, store = System("a"), LocalStore(tmp_path)
    system.rows = True
    change = AlterColumnType(table("a"), Column("id", DataType.parse("INT")), KEYED.columns[0])
    with pytest.raises(ChangeRefused, match="outside of INT") as caught:
        SchemaChanges(system.sessions, store).apply(0, [change])
    assert caught.value.hint == "change or remove such values in Doris: they are not in the log"
    system.rows = False
    SchemaChanges(system.sessions, store).apply(0, [change])


def test_tables_are_created_in_sessions_of_their_own_once_their_database_is_there(tmp_path: Path) -> None:
    system, store = System("first"), LocalStore(tmp_path)
    created = [CreateTable(table(f"t{number}"), KEYED) for number in range(9)]
    SchemaChanges(system.sessions, store).apply(1, [RenameTable(table("first"), table("other")), *created])
    assert system.tables.keys() == {table("other"), *(change.table for change in created)}
    assert 1 < system.opened == system.closed <= 1 + 8
    assert Journal(store, 1, [RenameTable(table("first"), table("other")), *created]).done == 10


def planned(*changes: SchemaChange) -> list[PlannedChange]:
    return [PlannedChange(change) for change in changes]


def test_creations_go_up_to_the_next_other_change() -> None:
    changes = planned(
        CreateTable(table("a"), KEYED), CreateTable(table("b"), KEYED), DropTable(table("a")),
        CreateTable(table("a"), KEYED),
    )  # fmt: skip
    assert [item.change.table.table for item in creations(changes, 0)] == ["a", "b"]
    assert creations(changes, 2) == []
    assert [item.change.table.table for item in creations(changes, 3)] == ["a"]


def test_the_same_table_is_not_created_twice_at_once() -> None:
    twice = planned(CreateTable(table("a"), KEYED), CreateTable(table("a"), KEYED))
    assert len(creations(twice, 0)) == 1


def pieces(*names: str) -> list[tuple[Step, ...]]:
    return [(op.DropTableOp(table(name)),) for name in names]


def test_pieces_run_at_the_same_time_each_once() -> None:
    system, met, done = System(), threading.Barrier(4, timeout=120), list[str]()

    def run(_: TableSession[SqlType], steps: Sequence[Step]) -> None:
        met.wait()  # nobody gets through alone
        done.extend(step.table.table for step in steps)

    run_in_parallel(system.sessions, pieces(*"abcdefgh"), run, 8)
    assert sorted(done) == list("abcdefgh")
    assert system.opened == system.closed <= 8


def test_after_an_error_what_has_not_begun_is_left() -> None:
    system, done = System(), list[str]()

    def run(_: TableSession[SqlType], steps: Sequence[Step]) -> None:
        if steps[0].table.table == "b":
            raise ChangeRefused("no", where="shop.b")
        done.append(steps[0].table.table)

    with pytest.raises(ChangeRefused, match="no"):
        run_in_parallel(system.sessions, pieces("a", "b", "c"), run, 1)
    assert done == ["a"]
    assert system.opened == system.closed == 1


def test_nothing_to_do_needs_no_session() -> None:
    system = System()
    run_in_parallel(system.sessions, [], lambda session, steps: None, 8)
    assert system.opened == 0


class Columns(SchemaSession[SqlType]):
    """A system that renames one column at a time, without transactions; it dies after a number of statements."""

    def __init__(self, *names: str) -> None:
        self.values = {name: f"values of {name}" for name in names}
        self.left: int | None = None

    @contextmanager
    def sessions(self) -> Iterator[SchemaSession[SqlType]]:
        yield self

    @property
    def dialect(self) -> DorisDialect:
        return DorisDialect({})

    def read(self, tables: Sequence[TableId]) -> Layout[SqlType]:
        columns = tuple(ActualColumn(name, BIGINT) for name in self.values)
        return Layout([DorisTable(table("t"), columns, ("id",), model="UNIQUE")], ["shop"])

    def execute(self, statement: Statement) -> None:
        [(old, new)] = re.findall(r"RENAME COLUMN `(\w+)` `(\w+)`", statement.sql)
        assert new.lower() not in {name.lower() for name in self.values}, statement.sql
        self.values[new] = self.values.pop(old)
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise SinkUnavailable("the answer is lost")

    def finds(self, query: str) -> bool:
        return False


@together("dies_after", [1, 2, 3, 4])
def test_an_exchange_of_columns_is_carried_out_once_whenever_the_process_dies(tmp_path: Path, dies_after: int) -> None:
    system, store = Columns("id", "a", "b", "c"), LocalStore(tmp_path)
    ring = [RenameColumns(table("t"), (("a", "B"), ("b", "c"), ("c", "a")))]
    system.left = dies_after
    with pytest.raises(SinkUnavailable):
        SchemaChanges(system.sessions, store).apply(3, ring)
    system.left = None
    for _ in range(2):
        SchemaChanges(system.sessions, store).apply(3, ring)
    moved = {"B": "values of a", "c": "values of b", "a": "values of c"}
    assert system.values == {"id": "values of id", **moved}
