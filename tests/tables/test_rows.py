"""Rows through random lives of tables: after all orders the sink has those of the source, whatever came between.

A model of a source that snapshots in two chunks, and of a sink with live and shadow tables. A key is in one table only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from invariants import KEYED, ROUTES, A, B, C, D, check
from tiers import EXHAUSTIVE

from cdc.block import LOGGED, Stream
from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.route import Target
from cdc.schema import (
    CreateShadow,
    CreateTable,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.tables import events as on
from cdc.tables.machine import BatchOutcome, batch_outcome
from cdc.tables.router import To, targets
from cdc.tables.states import OPEN_ORDERS, SinkState, Tables, TableState
from cdc.tables.table_map import Circumstances

LOG, CHUNK = frozenset({Stream.LOG}), frozenset({Stream.SNAPSHOT_ROWS})
Rows = dict[int, int]


@dataclass
class Snapshot:
    """Chunks of the even keys and of the odd ones: those read, and those that the batch reads."""

    done: set[int] = field(default_factory=set)
    now: set[int] = field(default_factory=set)


@dataclass
class Source:
    """Tables with rows; `log`: row changes of the batch, each with its streams."""

    chance: random.Random
    tables: dict[TableId, Rows] = field(default_factory=dict)
    running: dict[TableId, Snapshot] = field(default_factory=dict)
    log: list[tuple[TableId, int, int | None, frozenset[Stream]]] = field(default_factory=list)
    keys: Iterator[int] = field(default_factory=lambda: iter(range(1 << 30)))
    keys_uncertain: set[TableId] = field(default_factory=set)
    """Tables that lost rows without the log, and were not snapshotted since."""

    def begin(self, found: list[on.Event], table: TableId, *, keys_certain: bool = False) -> None:
        if self.running.pop(table, None) is not None:
            found.append(on.SnapshotVoid(table))
        self.running[table] = Snapshot()
        found.append(on.SnapshotBegun(table, keys_certain=keys_certain and table not in self.keys_uncertain))
        self.keys_uncertain.discard(table)

    def void(self, found: list[on.Event], table: TableId) -> None:
        if self.running.pop(table, None) is not None:
            found.append(on.SnapshotVoid(table))

    def silently(self, table: TableId, *, same_keys: bool) -> None:
        """Change rows without the log."""
        rows = self.tables[table]
        for key in list(rows):
            rows[key] += 1000
            if not same_keys and self.chance.random() < 0.5:
                del rows[key]
                self.keys_uncertain.add(table)

    def event(self, found: list[on.Event]) -> None:
        absent = [table for table in (A, B, C, D) if table not in self.tables]
        if absent and (not self.tables or self.chance.random() < 0.25):
            table = self.chance.choice(absent)
            by_snapshot = self.chance.random() < 0.5
            self.tables[table] = {next(self.keys): 0 for _ in range(4)} if by_snapshot else {}
            found.append(on.TableCreated(table, CreateTable(table, KEYED), by_snapshot))
            if by_snapshot:
                self.running[table] = Snapshot()
            return
        table = self.chance.choice(sorted(self.tables))
        kinds = ("drop", "left", "truncate", "uncertain", "same", "gap", "rename", "begin", "done", "done", "done")
        kind = self.chance.choice(kinds)
        if kind in ("drop", "left"):
            del self.tables[table]
            self.running.pop(table, None)
            found.append(on.TableDropped(table) if kind == "drop" else on.CaptureEnded(table, "it is excluded"))
        elif kind == "truncate":
            self.tables[table].clear()
            self.running.pop(table, None)
            found.append(on.TableTruncated(table))
        elif kind in ("uncertain", "same", "gap"):
            certain = kind == "same" and table not in self.running
            self.void(found, table)
            self.silently(table, same_keys=kind == "same")
            found.append(on.RowsUncertain(table, on.Uncertain("values", same_rows=kind == "same"), gap=kind == "gap"))
            if kind != "uncertain" or self.chance.random() < 0.5:
                self.begin(found, table, keys_certain=certain)
        elif kind == "rename" and absent:
            new = self.chance.choice(absent)
            self.void(found, table)
            self.tables[new] = self.tables.pop(table)
            found.append(on.TableRenamed(table, new))
        elif kind == "begin":
            self.begin(found, table)
        elif kind == "done":
            self.finish(found, table)

    def finish(self, found: list[on.Event], table: TableId) -> None:
        if table in self.running and self.running[table].done == {0, 1}:
            del self.running[table]
            found.append(on.SnapshotDone(table))

    def write(self, most: int = 4) -> None:
        """Rows after the events; then chunks are read."""
        for snapshot in self.running.values():
            left = [part for part in (0, 1) if part not in snapshot.done]
            snapshot.now = set(left[: self.chance.randrange(3)])
        for _ in range(self.chance.randrange(most)):
            if self.tables:
                table = self.chance.choice(sorted(self.tables))
                rows = self.tables[table]
                key = self.chance.choice([*rows, next(self.keys)])
                value = None if key in rows and self.chance.random() < 0.3 else self.chance.randrange(100)
                rows.pop(key, None)
                if value is not None:
                    rows[key] = value
                snapshot_of = self.running.get(table)
                streams = LOGGED if snapshot_of is None or key % 2 in snapshot_of.done else LOG
                self.log.append((table, key, value, streams))

    def take(self) -> list[tuple[TableId, int, int | None, frozenset[Stream]]]:
        """The rows of the batch."""
        found, self.log = self.log, []
        for table, snapshot in self.running.items():
            found += [(table, key, v, CHUNK) for key, v in self.tables[table].items() if key % 2 in snapshot.now]
            snapshot.done |= snapshot.now
        return found


@dataclass
class Sink:
    """Live and shadow tables."""

    live: dict[TableId, Rows] = field(default_factory=dict)
    shadow: dict[TableId, Rows] = field(default_factory=dict)
    shadows: bool = True

    def apply(self, operation: SchemaChange) -> None:
        table = operation.table
        match operation:
            case CreateTable():
                self.live.setdefault(table, {})
            case DropTable():
                del self.live[table]
                self.shadow.pop(table, None)
            case RenameTable(new_table=new):
                self.live[new] = self.live.pop(table)
                self.shadow.pop(table, None)
            case TruncateTable():
                self.live[table].clear()
                self.shadow.pop(table, None)
            case CreateShadow() if self.shadows:
                self.shadow[table] = {}
            case CreateShadow():
                self.live[table].clear()
            case SwapShadow() if self.shadows:
                self.live[table] = self.shadow.pop(table)
            case DropShadow():
                self.shadow.pop(table, None)
            case _:
                pass

    def write(self, table: TableId, to: To, key: int, value: int | None) -> None:
        rows = self.live[table] if to is To.LIVE else self.shadow[table]
        rows.pop(key, None)
        if value is not None:
            rows[key] = value


class Life:
    """One random life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.behavior = self.chance.choice((Behavior.EVOLVE, Behavior.EVOLVE, Behavior.LENIENT, Behavior.TRY_EVOLVE))
        self.shadows = self.chance.random() < 0.85
        self.source, self.sink, self.tables = Source(self.chance), Sink(shadows=self.shadows), Tables()
        self.route, self.batch = self.chance.choice(ROUTES), 0
        self.told: set[TableId] = set()
        self.renamed: set[TableId] = set()
        """Tables that the rows of a renamed one do not follow to, as notices say."""
        self.log: list[str] = [f"seed {seed} {self.behavior} shadows {self.shadows}"]

    def run(self) -> bool:
        """Live, then take up all orders; False where the run stopped."""
        try:
            for _ in range(12):
                if self.chance.random() < 0.1:
                    self.route = self.chance.choice(ROUTES)
                if self.chance.random() < 0.05:
                    self.behavior = self.chance.choice((Behavior.EVOLVE, Behavior.LENIENT))
                found = [*self._requests()]
                for _ in range(self.chance.randrange(3)):
                    self.source.event(found)
                self._orders(found, 0.5)
                self._take(found)
            self._drain()
        except ChangeRefused:
            return False
        self._check()
        return True

    def _requests(self) -> Iterator[on.Event]:
        if self.source.tables and self.chance.random() < 0.25:
            kinds = (on.PauseRequested, on.ResumeRequested, on.ResumeRequested, on.SnapshotRequested)
            yield self.chance.choice(kinds)(self.chance.choice(sorted(self.source.tables)))
        if self.behavior is Behavior.EVOLVE and self.chance.random() < 0.1:  # the behavior was another one before
            pairs = sorted(pair for pair in self.tables.pairs if pair[1] in self.tables.sinks)
            if pairs:
                source, table = self.chance.choice(pairs)
                yield on.RowsUnfit(source, Target(table))

    def _orders(self, found: list[on.Event], share: float) -> None:
        for table in sorted(self._open() & self.source.tables.keys()):
            if self.chance.random() < share:
                self.source.begin(found, table)

    def _open(self) -> frozenset[TableId]:
        return self.tables.in_state(*OPEN_ORDERS) | {
            source for (source, _), pair in self.tables.pairs.items() if pair.ordered
        }

    def _take(self, found: list[on.Event]) -> None:
        now = Circumstances(self.route, Policy(self.behavior), self.shadows, batch=self.batch)
        self.log += [f"batch {self.batch} {self.behavior} {self.route.to_json()['rules']}", *map(str, found)]
        plan = batch_outcome(now, self.tables, found)
        self.source.write()
        self._carry_out(plan)
        self.tables, self.batch = plan.after, self.batch + 1

    def _carry_out(self, plan: BatchOutcome) -> None:
        self.log += [f"  {operation}" for operation in plan.operations]
        self.log += [f"  {s} {t} {p.state}" for (s, t), p in plan.after.pairs.items()]
        try:
            check(plan.after, shadows=self.shadows)
        except AssertionError as error:
            raise AssertionError("\n".join([*self.log, str(error)])) from None
        for operation in plan.operations:
            self.sink.apply(operation)
            if isinstance(operation, RenameTable) and operation.table in self.told:
                self.told.add(operation.new_table)
        self.told |= {notice.table for notice in plan.notices if not notice.done}
        renames = [notice for notice in plan.notices if notice.name == "rename.table"]
        places = [place for notice in renames for place in re.findall(r" stay in (\S+),", notice.text)]
        self.renamed |= {*(notice.table for notice in renames), *map(TableId.parse, places)}
        for table, key, value, streams in self.source.take():
            for target in self.route.targets(table):
                state = plan.after.state((table, target.table))
                shadowed = plan.after.states.get(target.table, SinkState()).shadowed
                for to in targets(state, streams, shadowed=shadowed):
                    self.log.append(f"  row {table} {key}={value} to {to}")
                    self.sink.write(target.table, to, key, value)

    def _drain(self) -> None:
        """Everything that waits goes on, until nothing does."""
        for _ in range(30):
            found: list[on.Event] = [on.ResumeRequested(table) for table in self.tables.in_state(TableState.PAUSED)]
            for table in sorted(self.source.running):
                self.source.finish(found, table)
            self._orders(found, 1.0)
            if not found and not self.source.running:
                return
            self._take(found)
        raise AssertionError("\n".join([*self.log, "orders stay open"]))

    def _check(self) -> None:
        expected: dict[TableId, Rows] = {}
        for source, rows in self.source.tables.items():
            for target in self.route.targets(source):
                expected.setdefault(target.table, {}).update(rows)
        for table, rows in expected.items():
            if table in self.renamed:
                continue
            exact = (
                self.behavior is Behavior.EVOLVE
                and table not in self.told
                and not self.tables.states.get(table, SinkState()).stale
            )
            live = self.sink.live[table]
            found = live if exact else {key: value for key, value in live.items() if key in rows}
            assert found == rows, "\n".join([*self.log, f"{table}: {found} and not {rows}"])
        assert not self.sink.shadow, "\n".join([*self.log, f"{self.sink.shadow} stays"])


@pytest.mark.parametrize(("first", "count"), [(0, 200), pytest.param(200, 800, marks=EXHAUSTIVE)])
def test_behind_all_orders_the_sink_has_the_rows_of_the_source(first: int, count: int) -> None:
    assert sum(Life(seed).run() for seed in range(first, first + count)) > 0.8 * count
