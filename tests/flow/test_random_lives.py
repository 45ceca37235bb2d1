"""Random lives of tables through the engine, with crashes and edited files: the sink ends with the rows of the source.

A source in memory that snapshots tables in two chunks beside its log, as a server's does; keys are in one table only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from tiers import EXHAUSTIVE

from cdc import events as on
from cdc.block import Stream
from cdc.errors import ChangeRefused, EditRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow import derive
from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterTableComment,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SourceStatement,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.source import Order, Snapshots
from cdc.spec.model import RouteRule
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, RequestKind
from cdc.tables.states import OPEN_ORDERS, Tables, TableState
from cdc.tables.table_map import ExistingRows
from cdc.testing import ListSink, ListSource, block
from cdc.testing.local_pipeline import LocalPipeline

A, B, C, D = (TableId("shop", name) for name in "abcd")
ONE, ALL = TableId("ods", "one"), TableId("ods", "all")
INT, BIGINT = DataType.parse("INT"), DataType.parse("BIGINT")
ID, V, W = Column("id", INT, nullable=False), Column("v", INT), Column("w", INT)
NOTE = Column("note", DataType.parse("STRING"))
SMALL = TableSchema((ID, V, W), ("id",))
"""`w` is `v` with the other sign; an exchange of their names turns the signs of all rows without a row in the log."""

CREATED = SourceStatement("CREATE TABLE")
EXCHANGE = (("v", "w"), ("w", "v"))
ROUTES: tuple[dict[str, TableId], ...] = (
    {}, {"shop.a": ONE}, {r"shop.\.*": ALL}, {"shop.a|shop.b": ALL}, {"shop.a": ALL, "shop.b": ONE},
)  # fmt: skip
TO_TWO: tuple[dict[str, TableId], ...] = (
    {"shop.a": ALL, r"shop.\.*": ONE}, {r"shop.\.*": ALL, "shop.a|shop.b": ONE}, {"shop.a": ONE},
)  # fmt: skip
"""Rows of one table go to two tables."""
BEHAVIORS = (Behavior.EVOLVE, Behavior.EVOLVE, Behavior.LENIENT, Behavior.TRY_EVOLVE)
EDITED = (Behavior.EVOLVE, Behavior.EVOLVE, Behavior.LENIENT, Behavior.TRY_EVOLVE, Behavior.IGNORE)
UNSETTLED = (*OPEN_ORDERS, TableState.SHADOW, TableState.FROZEN, TableState.OVERWRITE, TableState.PAUSED)


class Point(Enum):
    """Where a process dies."""

    APPLY = "before-apply"
    PREPARE = "before-prepare"
    PREPARING = "in-prepare"
    PREPARED = "after-prepare"
    DECIDED = "after-decide"
    COMMITTED = "after-commit"


@dataclass
class Snapshot:
    """Chunks of the even keys and of the odd ones that are read."""

    done: set[int] = field(default_factory=set)


class Source(ListSource):
    """`tables` has the rows of now."""

    def __init__(self, chance: random.Random, key: tuple[str, ...] = ("id",)) -> None:
        super().__init__([])
        self.narrow, self.wide = TableSchema(SMALL.columns, key), TableSchema((*SMALL.columns, NOTE), key)
        self.chance, self.keys, self.sequence = chance, iter(range(1 << 30)), 0
        self.tables: dict[TableId, dict[int, int]] = {}
        self.schemas: dict[TableId, TableSchema] = {}
        self.running: dict[TableId, Snapshot] = {}
        self.known, self.orders, self.ids = set[str](), set[TableId](), dict[TableId, str]()
        self.left_out: dict[TableId, dict[int, int]] = {}
        """Tables that are excluded, with their rows."""
        self.gone = set[TableId]()
        """Tables that got a name that is not captured."""
        self.more: tuple[str, ...] = ()
        """Kinds of changes that only some lives have."""
        self.pace = chance.choice((0.2, 0.5))
        """The share of chunks that a batch reads of those that are left."""

    # what the engine asks for

    def captures(self, table: TableId) -> bool:
        return table not in self.left_out

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS if self.captures(table) else Snapshots.NEVER

    def order(self, orders: Mapping[TableId, Order]) -> None:
        self.orders = {table for table, order in orders.items() if order.id not in self.known}
        self.ids = {table: order.id for table, order in orders.items()}

    # what happens

    def exclude(self) -> None:
        """The pipeline file leaves a table out from the next run on."""
        if self.tables:
            table = self.chance.choice(sorted(self.tables))
            self.left_out[table] = self.tables.pop(table)
            self.running.pop(table, None)

    def include(self) -> list[Any]:
        """All tables are taken in again: each starts over, and a first snapshot reads its rows."""
        found: list[Any] = []
        for table, rows in self.left_out.items():
            self.tables[table] = {key: value + 1 for key, value in rows.items() if self.chance.random() < 0.8}
            created = on.TableCreated(table, CreateTable(table, self.schemas[table]), by_snapshot=True)
            found += [on.TableDropped(table), created]
            self.running[table] = Snapshot()
        self.left_out.clear()
        return found

    def add(self, *items: Any) -> None:
        self._items = (*self._items, *items)

    def void(self, changes: list[Any], table: TableId) -> None:
        if self.running.pop(table, None) is not None:
            changes.append(on.SnapshotVoid(table))

    def begin(self, changes: list[Any], table: TableId) -> None:
        self.void(changes, table)
        self.running[table] = Snapshot()
        changes.append(on.SnapshotBegun(table))

    def take_orders(self, changes: list[Any], share: float) -> None:
        for table in sorted(self.orders):
            if self.chance.random() < share:
                self.orders.remove(table)
                self.known.add(self.ids[table])
                if table in self.tables:
                    self.begin(changes, table)

    def finish(self, changes: list[Any]) -> None:
        for table, snapshot in list(self.running.items()):
            if snapshot.done == {0, 1}:
                del self.running[table]
                changes.append(on.SnapshotDone(table))

    def change(self, changes: list[Any]) -> None:
        absent = [table for table in (A, B, C, D) if table not in self.tables and table not in self.left_out]
        if not (self.tables or absent):
            return
        if absent and (not self.tables or self.chance.random() < 0.25):
            self._appear(changes, self.chance.choice(absent))
            return
        table = self.chance.choice(sorted(self.tables))
        kinds = ("drop", "truncate", "alter", "alter", "exchange", "rename", "leave", "uncertain", "same rows", "gap")
        kind = self.chance.choice((*kinds, *self.more))
        if kind == "drop":
            del self.tables[table], self.schemas[table]
            self.running.pop(table, None)
            changes.append(DropTable(table))
        elif kind == "truncate":
            self.tables[table].clear()
            if self.chance.random() < 0.5:  # the log has all rows from there; a source may not know that yet
                self.running.pop(table, None)
            changes.append(TruncateTable(table))
        elif kind == "alter":
            schema = self.schemas[table]
            wide = NOTE in schema.columns
            others = tuple(column for column in schema.columns if column != NOTE)
            self.schemas[table] = replace(schema, columns=others if wide else (*others, NOTE))
            change = DropColumn(table, "note") if wide else AddColumn(table, NOTE)
            uncertain = self.chance.random() < 0.3
            same = uncertain and self.chance.random() < 0.5
            if uncertain:
                self._silently(table, same_rows=same)
            why = on.Uncertain("values were converted", same_rows=same) if uncertain else None
            changes.append(on.TableChanged(table, change, why))
            if uncertain or (table in self.running and self.chance.random() < 0.5):
                self._begin_again(changes, table, same_rows=same)
        elif kind == "retype":
            self._retype(changes, table)
        elif kind == "exchange" and W in self.schemas[table].columns:
            rows = self.tables[table]
            self.tables[table] = {key: -value for key, value in rows.items()}
            changes.append(on.TableChanged(table, RenameColumns(table, EXCHANGE)))
            if table in self.running:  # its chunks have the names of before
                self._begin_again(changes, table)
        elif kind == "comment":
            changes.append(on.TableChanged(table, AlterTableComment(table, f"the {next(self.keys)}th")))
        elif kind == "leave":
            del self.tables[table], self.schemas[table]
            self.running.pop(table, None)
            self.gone.add(table)
            changes.append(on.CaptureEnded(table, "it has a name that is not captured"))
        elif kind == "rename" and absent:
            new = self.chance.choice(absent)
            self._free(changes, new)
            self.tables[new], self.schemas[new] = self.tables.pop(table), self.schemas.pop(table)
            snapshot = self.running.pop(table, None)
            if snapshot is not None and self.chance.random() < 0.5:  # it goes on under the new name
                self.running[new], snapshot = snapshot, None
            if snapshot is not None:
                changes.append(on.SnapshotVoid(table))
            changes.append(RenameTable(table, new))
            if snapshot is not None:
                self.begin(changes, new)
        elif kind in ("uncertain", "same rows", "gap"):
            same = kind == "same rows"
            self._silently(table, same_rows=same)
            changes.append(on.RowsUncertain(table, on.Uncertain("nobody saw it", same_rows=same), gap=kind == "gap"))
            self._begin_again(changes, table, same_rows=same)

    def _retype(self, changes: list[Any], table: TableId) -> None:
        """A column gets a wider type, or the one of before: not every sink changes it in place."""
        schema, wide = self.schemas[table], replace(W, type=BIGINT)
        old, new = (W, wide) if W in schema.columns else (wide, W)
        self.schemas[table] = replace(schema, columns=tuple(new if each == old else each for each in schema.columns))
        changes.append(on.TableChanged(table, AlterColumnType(table, new, old)))
        if table in self.running:
            self._begin_again(changes, table)

    def _appear(self, changes: list[Any], table: TableId) -> None:
        """A table is created, or one with rows gets a captured name."""
        self.tables[table], self.schemas[table] = {}, self.narrow
        self._free(changes, table)
        filled = self.chance.random() < 0.3
        if filled:
            self.tables[table] = {next(self.keys): self.chance.randrange(100) for _ in range(3)}
            self.running[table] = Snapshot()
        created = CreateTable(table, self.narrow, statement=None if filled else CREATED)
        changes.append(on.TableCreated(table, created, by_snapshot=filled))

    def _free(self, changes: list[Any], table: TableId) -> None:
        """The name comes into use again: what is left of the table that had it goes."""
        if table in self.gone:
            self.gone.remove(table)
            changes.append(on.TableDropped(table))

    def _begin_again(self, changes: list[Any], table: TableId, *, same_rows: bool = False) -> None:
        """A snapshot that runs is void before what makes it so."""
        before = self.running.pop(table, None)
        if before is not None:
            changes.insert(-1, on.SnapshotVoid(table))
        self.running[table] = Snapshot()
        changes.append(on.SnapshotBegun(table, keys_certain=same_rows and before is None))

    def _silently(self, table: TableId, *, same_rows: bool = False) -> None:
        """Rows change without the log."""
        rows = self.tables[table]
        for key in list(rows):
            rows[key] += 1000
            if not same_rows and self.chance.random() < 0.3:
                del rows[key]

    def rows(self) -> Iterator[Any]:
        """Changes of rows, then chunks."""
        for _ in range(self.chance.randrange(5)):
            if self.tables:
                table = self.chance.choice(sorted(self.tables))
                rows = self.tables[table]
                key = self.chance.choice([*rows, next(self.keys)])
                old = rows.pop(key, None)
                if old is None or self.chance.random() < 0.6:
                    rows[key] = self.chance.randrange(100)
                    images = [("+I", key, rows[key])] if old is None else [("-U", key, old), ("+U", key, rows[key])]
                else:
                    images = [("-D", key, old)]
                yield from self._logged(table, key, images)
        for table, snapshot in self.running.items():
            for part in {0, 1} - snapshot.done:
                if self.chance.random() < self.pace:
                    snapshot.done.add(part)
                    found = [("+I", key, value) for key, value in self.tables[table].items() if key % 2 == part]
                    if found:
                        yield replace(self._block(table, found), streams=frozenset({Stream.SNAPSHOT_ROWS}))

    def _logged(self, table: TableId, key: int, images: list[tuple[str, int, int]]) -> Iterator[Any]:
        made, snapshot = self._block(table, images), self.running.get(table)
        whole = snapshot is None or key % 2 in snapshot.done
        yield made if whole else replace(made, streams=frozenset({Stream.LOG}))

    def _block(self, table: TableId, images: list[tuple[str, int, int]]) -> Any:
        self.sequence += 1
        rows = [(kind, {"id": key, "v": value, "w": -value}) for kind, key, value in images]
        return block(table, self.schemas[table], rows, sequence=self.sequence)


class Stubborn(ListSink):
    """Refuses every third change of columns; a re-snapshot includes its change."""

    refused: tuple[type[SchemaChange], ...] = (AddColumn, DropColumn)

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, self.refused) and (batch + len(str(change.table))) % 3 == 0:
                raise ChangeRefused("not in place", where=str(change.table), resnapshot_helps=True)
        super().apply(batch, changes)


class Refuses(Stubborn):
    """Refuses every fourth table, too: with `try_evolve` it is not in the sink then."""

    refused = (AddColumn, DropColumn, CreateTable)


class Emptied(ListSink):
    """Has no shadow tables: the table is emptied for a re-snapshot."""

    shadows = False


class Life:
    """One pipeline, from its first batch until nothing waits any more. It may die at each of its `points`."""

    points: Sequence[Enum] = tuple(Point)

    def __init__(self, seed: int, folder: Path, sink: Any = None) -> None:
        """`sink` has the properties of a `ListSink` that `_check` reads."""
        self.chance, self.seed = random.Random(seed), seed
        self.notices = set[tuple[str, str]]()
        rare = random.Random(f"rare {seed}") if sink is None else None
        keyed = rare is None or rare.random() < 0.8
        self.source, self.state = Source(self.chance, ("id",) if keyed else ()), StateDir(folder)
        self.behavior = self.chance.choice(BEHAVIORS)
        refuses = Refuses if self.behavior is Behavior.TRY_EVOLVE else Stubborn
        self.sink = self.chance.choice((ListSink, refuses))() if sink is None else sink
        self.existing, self.occupied = ExistingRows.UPSERT, frozenset[TableId]()
        self.sharded = self.chance.random() < 0.3
        self.begun = self.chance.choice((0.2, 0.5))
        self.all_routes = ROUTES
        self.routes = self.chance.choice(ROUTES)
        if rare is not None:
            self._rare(rare)
        self.at, self.batch = self.source.initial_offset(), 0
        self.pipeline = LocalPipeline(
            self.source, self.sink, self.state, numbered(self.at, 0), self._restarted, self._middle()
        )

    def _rare(self, chance: random.Random) -> None:
        """What some lives have: comments, a sink without shadow tables, or with rows; a policy that stops the run."""
        self.source.more = ("comment",) if chance.random() < 0.3 else ()
        if chance.random() < 0.2 and type(self.sink) is ListSink:
            self.sink = Emptied()
        if chance.random() < 0.2:
            self.all_routes = TO_TWO
            self.routes = chance.choice(TO_TWO)
        if chance.random() < 0.1:
            self.behavior = Behavior.EXCEPTION
        if chance.random() < 0.3:
            self.existing = chance.choice((*ExistingRows, ExistingRows.REPLACE))
            rows = [{"id": -100 - number, "v": 1, "w": -1} for number in range(3)]
            tables = [TableId(name, table) for name, table in (("shop", "a"), ("shop", "b"), ("ods", "one"))]
            self.occupied = frozenset(table for table in tables if chance.random() < 0.7)
            for table in self.occupied:
                self.sink.fill(table, self.source.narrow, rows)

    def notice(self, message: str, table: TableId, text: str) -> None:
        """What the engine warns of."""
        self.notices.add((str(table), text))

    def _middle(self) -> Middle:
        shard = {"shard_column": "origin", "shard_gone": "delete"} if self.sharded else {}
        rules = [
            RouteRule(source_table=source, sink_table=str(table), **shard) for source, table in self.routes.items()
        ]
        return Middle(RouteTable(rules), Policy(self.behavior), Coercion("fail"), existing_rows=self.existing)

    def _restarted(self) -> ListSink:
        if self.chance.random() < 0.3:
            self._edit()
        return self.sink

    def _edit(self) -> None:
        self.routes = self.chance.choice(self.all_routes)
        if self.chance.random() < 0.3:
            self.behavior = self.chance.choice(EDITED)
        self.pipeline.middle = self._middle()

    @property
    def tables(self) -> Tables:
        return TableLog(self.state.store).at(1 << 40).tables

    def run(self, steps: int = 8) -> bool:
        """False where the run stopped at something that it names."""
        try:
            for _ in range(steps):
                changes: list[Any] = []
                for _ in range(self.chance.randrange(3)):
                    self.source.change(changes)
                if self.chance.random() < 0.7:
                    self.source.finish(changes)
                self.source.order(self.pipeline.orders(self.batch))
                self.source.take_orders(changes, self.begun)
                for _ in range(self.chance.choice((0, 0, 1, 2))):
                    table = self.chance.choice((A, B, C, D))
                    kinds = (RequestKind.PAUSE, RequestKind.PAUSE, RequestKind.RESUME, RequestKind.SNAPSHOT)
                    kind = self.chance.choice(kinds)
                    Mailbox(self.state.store).add(table, kind)
                if self.chance.random() < 0.2:
                    self._start_again(changes)
                self._batches(changes, [each for each in self.points if self.chance.random() < 0.06])
            self._settle()
        except (ChangeRefused, EditRefused):
            return False
        finally:
            self.pipeline.wait()
        self._check()
        return True

    def _start_again(self, changes: list[Any]) -> None:
        """Another run, by a file that excludes a table perhaps, or takes those in again that it did."""
        self._batches(changes)
        changes.clear()
        if self.source.left_out:
            changes += self.source.include()
        elif self.chance.random() < 0.4:
            self.source.exclude()
        self.pipeline.restart()

    def _batches(self, changes: list[Any], failures: Any = ()) -> None:
        self.source.add(*changes, *self.source.rows())
        while (end := self.pipeline.latest(self.at, self.batch)) != self.at:
            self.pipeline.batch(numbered(self.at, self.batch), numbered(end, self.batch + 1), 1, failures)
            self.at, self.batch = end, self.batch + 1

    def _settle(self) -> None:
        self.source.pace = 0.5
        self._batches([])
        found = self.source.include()
        self.pipeline.restart()
        for table in sorted(self.source.tables)[:1]:  # edited routes count from the next batch on
            self.source.tables[table][-1] = 0
            found += self.source._logged(table, -1, [("+I", -1, 0)])
        self._batches(found)
        for _ in range(30):
            for table in self.tables.in_state(TableState.PAUSED):
                Mailbox(self.state.store).add(table, RequestKind.RESUME)
            changes: list[Any] = []
            self.source.finish(changes)
            self.source.order(self.pipeline.orders(self.batch))
            self.source.take_orders(changes, 1.0)
            self._batches(changes)
            if not (self.source.running or self.source.orders or self.tables.in_state(*UNSETTLED)):
                return
        raise AssertionError(f"seed {self.seed}: {self.tables.pairs} wait")

    def _check(self) -> None:
        renamed = {(table, text) for table, text in self.notices if text.startswith("rename.table")}
        moved = {name for table, text in renamed for name in (table, *re.findall(r" stay in (\S+),", text))}
        exact_still = ("route.moved", "table.", "rows.replaced")
        inexact = {table for table, text in self.notices if not text.startswith(exact_still)}
        expected: dict[TableId, dict[int, int]] = {}
        for source, rows in self.source.tables.items():
            for target in self.pipeline.middle.routes.targets(source):
                if self.tables.state((source, target.table)) is not TableState.MISSING:
                    expected.setdefault(target.table, {}).update(rows)
        for table, rows in expected.items():
            if str(table) in moved:
                continue
            live = {row["id"]: row["v"] for row in self.sink.rows(table)}
            exact = self.behavior is Behavior.EVOLVE and str(table) not in inexact
            exact = exact and not self.tables.sink_state(table).stale
            found = live if exact else {key: value for key, value in live.items() if key in rows}
            assert found == rows, f"seed {self.seed}: {table}"
            assert not exact or len(self.sink.rows(table)) == len(rows), f"seed {self.seed}: {table} has rows twice"
            assert all(row["w"] == -row["v"] for row in self.sink.rows(table) if row["id"] in rows)
        shadows = {self.sink.shadow(table) for table in self.tables.sinks} & self.sink.tables
        assert not shadows, f"seed {self.seed}: {shadows} stay"


@pytest.mark.parametrize(
    "seed",
    [
        *(*range(20), 881583, 882347, 883922, 885462),
        *(pytest.param(seed, marks=EXHAUSTIVE) for seed in range(20, 200)),
    ],
)
def test_a_random_life_ends_with_the_rows_of_the_source(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(seed, tmp_path)
    monkeypatch.setattr(derive.log, "warning", life.notice)
    life.run()
