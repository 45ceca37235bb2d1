"""Random lives of tables, through the state machine and through the code that it is to replace, side by side."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cdc.block import During
from cdc.errors import CdcError
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.pausing import TableRequest
from cdc.flow.sink_changes import Derived, derived
from cdc.flow.sink_schemas import Part
from cdc.flow.sink_tables import Sides
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterTableComment,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.spec.model import RouteRule
from cdc.tables import events as on
from cdc.tables.adapter import planned
from cdc.tables.machine import BatchPlan
from cdc.tables.router import Stream, To, targets
from cdc.tables.states import OPEN_ORDERS, Pair, Tables, TableState
from cdc.tables.table_map import Circumstances

A, B, C, D = (TableId("shop", name) for name in "abcd")
ONE, ALL, TWO = (TableId("ods", name) for name in ("one", "all", "two"))
ID = Column("id", DataType.parse("INT"), nullable=False)
EXTRA = [Column(f"c{number}", DataType.parse("STRING")) for number in range(3)]
TYPES = [DataType.parse(text) for text in ("STRING", "INT", "BIGINT")]

ROUTES = (
    {},
    {"shop.a": ONE},
    {"shop.a": TWO},
    {r"shop.\.*": ALL},
    {"shop.a|shop.b": ALL},
    {"shop.b|shop.c": ALL},
    {"shop.a": ALL, "shop.b": ONE},
    {"shop.a|shop.d": ONE, "shop.b|shop.c": ALL},
)
STREAMS = {
    During.NO_COPY: frozenset({Stream.LOG, Stream.SNAPSHOT}),
    During.OLD: frozenset({Stream.LOG}),
    During.NEW: frozenset({Stream.SNAPSHOT}),
}


def routes(chosen: dict[str, TableId], sharded: str) -> RouteTable:
    """Routes with a shard column in the table that several go to, perhaps."""
    rules = [
        RouteRule(
            source_table=source,
            sink_table=str(table),
            **({"shard_column": "origin", "shard_gone": sharded} if table == ALL and sharded else {}),
        )
        for source, table in chosen.items()
    ]
    return RouteTable(rules)


@dataclass
class World:
    """The source as it is: tables, and whether a re-snapshot of each runs, and whether it is frozen."""

    chance: random.Random
    keyed: bool
    snapshots: frozenset[TableId] = frozenset((A, B, C, D))
    tables: dict[TableId, TableSchema] = field(default_factory=dict)
    running: dict[TableId, bool] = field(default_factory=dict)

    def changes(self) -> list[SchemaChange]:
        """What happens in a batch."""
        found: list[SchemaChange] = []
        restarted: dict[TableId, bool] = {}
        for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
            self._one(found, restarted)
        for table, altered in restarted.items():
            if table in self.tables:
                self._begin_again(found, table, altered)
        return found

    def _begin_again(self, found: list[SchemaChange], table: TableId, altered: bool) -> None:
        frozen = altered or self.running.get(table, False)
        self.running[table] = frozen
        found.append(CreateShadow(table, self.tables[table] if frozen else None))

    def _one(self, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        absent = [table for table in (A, B, C, D) if table not in self.tables]
        if absent and (not self.tables or self.chance.random() < 0.25):
            table = self.chance.choice(absent)
            columns = (ID, *self.chance.sample(EXTRA, self.chance.randrange(3)))
            self.tables[table] = TableSchema(columns, ("id",) if self.keyed else ())
            found.append(CreateTable(table, self.tables[table]))
            return
        table = self.chance.choice(sorted(self.tables))
        kind = self.chance.choice(
            ("drop", "truncate", "alter", "alter", "alter", "rename", "comment", "begin", "begin", "altered", "done",
             "done", "first")
        )  # fmt: skip
        getattr(self, f"_{kind}")(table, found, restarted)

    def _drop(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        del self.tables[table]
        self.running.pop(table, None)
        restarted.pop(table, None)
        found.append(DropTable(table))

    def _truncate(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        found.append(TruncateTable(table))
        if table in self.running:
            restarted.setdefault(table, False)

    def _alter(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        schema = self.tables[table]
        there = [column for column in schema.columns if column.name != "id"]
        new = [column for column in EXTRA if column.name not in schema.names]
        change: SchemaChange
        if new and (not there or self.chance.random() < 0.5):
            change = AddColumn(table, replace(self.chance.choice(new), default=self.chance.choice((None, "x"))))
            schema = replace(schema, columns=(*schema.columns, change.column))
        elif self.chance.random() < 0.5:
            change = DropColumn(table, self.chance.choice(there).name)
            schema = replace(schema, columns=tuple(c for c in schema.columns if c.name != change.name))
        else:
            old = self.chance.choice(there)
            column = replace(old, type=self.chance.choice(TYPES))
            change = AlterColumnType(table, column, old)
            schema = replace(schema, columns=tuple(column if c == old else c for c in schema.columns))
        self.tables[table] = schema
        if table in self.running:  # the snapshot begins again, and brings the change
            restarted[table] = True
        else:
            found.append(change)

    def _rename(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        free = [other for other in (A, B, C, D) if other not in self.tables]
        if table in self.running:  # it goes on under a name that is snapshotted too
            free = [other for other in free if other in self.snapshots]
        if not free:
            return
        new = self.chance.choice(free)
        self.tables[new] = self.tables.pop(table)
        found.append(RenameTable(table, new))
        restarted.pop(table, None)
        if self.running.pop(table, None) is not None:
            self.running[new] = True
            restarted[new] = True

    def _comment(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        if restarted.get(table) is None:
            comment = f"c{self.chance.randrange(9)}"
            self.tables[table] = replace(self.tables[table], comment=comment)
            found.append(AlterTableComment(table, comment))

    def _begin(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        if table in self.snapshots:
            restarted.setdefault(table, False)

    def _altered(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        if table in self.snapshots:
            restarted[table] = True

    def _done(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        if table not in restarted and self.running.pop(table, None) is not None:
            found.append(SwapShadow(table))

    def _first(self, table: TableId, found: list[SchemaChange], restarted: dict[TableId, bool]) -> None:
        if table not in restarted and table not in self.running:
            found.append(TruncateTable(table, copied=True))


class Difference(AssertionError):
    """The two do not come to the same."""


@dataclass
class Lives:
    """One random life, in both."""

    seed: int
    log: list[str] = field(default_factory=list)

    def run(self, batches: int = 12) -> int:
        """Live it; how many batches both came through."""
        chance = random.Random(self.seed)
        behavior = chance.choice(
            (Behavior.EVOLVE, Behavior.EVOLVE, Behavior.LENIENT, Behavior.TRY_EVOLVE, Behavior.IGNORE)
        )
        policy, shadows = Policy(behavior), chance.random() < 0.85
        sharded = chance.choice(("", "", "keep", "delete"))
        table = routes(chance.choice(ROUTES), sharded)
        old, new = Sides(), Tables()
        allowed = frozenset(chance.choice(((A, B, C, D), (A, B, C, D), (A, C))))
        world = World(chance, chance.random() < 0.8, allowed)
        for batch in range(batches):
            if batch and chance.random() < 0.12:
                table = routes(chance.choice(ROUTES), sharded)
                self.log.append(f"routes {table.to_json()['rules']}")
            requests = self._requests(chance, old)
            changes = world.changes()
            self.log += [f"batch {batch}", *map(_short, requests), *map(_short, changes)]
            copies = allowed.__contains__ if shadows else None
            now = Circumstances(table, policy, shadows, allowed.__contains__, batch)
            events = [(on.PauseRequested if each.pause else on.ResumeRequested)(each.table) for each in requests]
            first = _tried(partial(derived, table, policy, old, changes, copies, requests))
            second = _tried(partial(planned, now, new, changes, events))
            if isinstance(first, CdcError) or isinstance(second, CdcError):
                if type(first) is not type(second):
                    raise Difference(self._told(f"{first!r}\n{second!r}"))
                return batch
            if not shadows and first.after.marks.waiting - old.marks.waiting and SwapShadow in map(type, changes):
                return batch  # the former code reads a table again that others have joined meanwhile
            if any(source not in allowed for source, _ in first.after.marks.together):
                return batch  # the former code lets a table leave the shadow table that it cannot be read into again
            if any(
                sink not in {target.table for target in table.targets(source)} for source, sink in old.marks.together
            ):
                return batch  # the former code swaps a shadow table in that none of the tables left is read into
            if any(
                second.after.state(pair) is TableState.SUSPENDED and pair not in first.after.marks.waiting
                for pair, part in first.after.marks.together.items()
                if part is Part.WANTED
            ):
                return batch  # a frozen live table follows the log with rows missing in the former code
            if first.after.marks.over & first.after.marks.together.keys():
                return (
                    batch  # the former code writes rows into the live table, and swaps a shadow table without them in
                )
            self._compare(first, second, world, table, shadows, batch, old, changes)
            old, new = first.after, second.after
        return batches

    def _requests(self, chance: random.Random, old: Sides) -> list[TableRequest]:
        if chance.random() > 0.15 or not old.sources:
            return []
        return [TableRequest("1", chance.choice(sorted(old.sources)), chance.random() < 0.5)]

    def _compare(
        self,
        first: Derived,
        second: BatchPlan,
        world: World,
        table: RouteTable,
        shadows: bool,
        batch: int,
        before: Sides,
        changes: Sequence[SchemaChange],
    ) -> None:
        _same(self, "sources", dict(first.after.sources), dict(second.after.sources))
        _same(self, "operations", _by_table(first.changes, shadows), _by_table(second.operations, shadows))
        _same(self, "sinks", dict(first.after.sinks), dict(second.after.sinks))
        marks = first.after.marks
        _same(self, "merged", marks.merged & first.after.sinks.keys(), second.after.merged & first.after.sinks.keys())
        _same(self, "paused", {s for s, _ in marks.paused}, second.after.in_state(TableState.PAUSED))
        _same(self, "resumed", {s for s, _ in marks.resumed}, second.after.in_state(TableState.RESUMED))
        for source in world.tables:
            kinds = [During.NO_COPY]
            if source in world.running:
                kinds = [During.NEW] if world.running[source] else [During.OLD, During.NEW]
            for target in table.targets(source):
                pair = source, target.table
                state, sink = second.after.state(pair), second.after.states.get(target.table)
                for during in kinds:
                    shadowed = sink is not None and sink.shadowed
                    got = targets(state, STREAMS[during], shadowed=shadowed)
                    _same(
                        self, f"rows {during!r} of {pair} in {state}", _former(marks, pair, during, shadows), list(got)
                    )
        if shadows:
            asked, ordered = _asked(first, before), _orders(second, batch)
            waited = {source for source, _ in [*before.marks.together, *before.marks.waiting]}
            _same(self, "orders missing", set(), asked - second.after.in_state(*OPEN_ORDERS))
            renamed = {change.new_table for change in changes if isinstance(change, RenameTable)}
            _same(self, "orders more", set(), ordered - asked - waited - renamed)

    def _told(self, text: str) -> str:
        return "\n".join([f"seed {self.seed}", *self.log, text])


def _short(value: Any) -> str:
    """A change in few words."""
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__ if name != "statement"}
    words = (",".join(each.names) if isinstance(each, TableSchema) else str(each) for each in fields.values())
    return f"{type(value).__name__} {' '.join(words)}"


def _tried(call: Any) -> Any:
    try:
        return call()
    except CdcError as error:
        return error


def _same(life: Lives, what: str, first: Any, second: Any) -> None:
    if first != second:
        raise Difference(life._told(f"{what}:\n  former {first}\n  new    {second}"))


_WHOLE = (CreateTable, DropTable, RenameTable, SwapShadow, TruncateTable)


def _by_table(operations: Sequence[SchemaChange], shadows: bool) -> dict[TableId, list[SchemaChange]]:
    """The operations of each table, without shadow operations that the next one makes void."""
    found: dict[TableId, list[SchemaChange]] = {}
    for operation in operations:
        kept = found.setdefault(operation.table, [])
        if isinstance(operation, SwapShadow | DropShadow) and not shadows:
            continue
        if isinstance(operation, CreateShadow | DropShadow | TruncateTable | DropTable | RenameTable):
            last = max((n for n, each in enumerate(kept) if isinstance(each, _WHOLE)), default=-1) + 1
            kept[last:] = [each for each in kept[last:] if not isinstance(each, CreateShadow | DropShadow)]
        operation = replace(operation, statement=None)
        if not (isinstance(operation, TruncateTable) and kept and kept[-1] == operation):
            kept.append(operation)
    return {table: kept for table, kept in found.items() if kept}


def _former(marks: Any, pair: Pair, during: During, shadows: bool) -> list[To]:
    """Where `cdc.flow.copying` leads a block."""
    if pair in marks.waiting:
        return []
    part, over = marks.together.get(pair), pair in marks.over
    if part is Part.WANTED and during is During.NEW:
        return []
    if over and during is not During.NO_COPY:
        found = [To.LIVE]
    elif shadows:
        found = [To.SHADOW if during is During.NEW else To.LIVE]
    elif during is During.OLD:
        return []
    else:
        found = [To.LIVE]
    return [*found, To.SHADOW] if part is Part.WHOLE and shadows else found


def _asked(first: Derived, before: Sides) -> set[TableId]:
    after, marks = first.after.marks, before.marks
    fresh = {source for source, _ in after.waiting - marks.waiting - after.paused - after.resumed}
    resumed = {source for source, _ in after.resumed - marks.resumed}
    return fresh | set(first.wanted) | resumed


def _orders(second: BatchPlan, batch: int) -> set[TableId]:
    open_before = {
        s for (s, _), pair in second.after.pairs.items() if pair.state is TableState.REQUESTED and pair.since < batch
    }
    found = set()
    for (source, _), pair in second.after.pairs.items():
        again = pair.state is TableState.REQUESTED and source in open_before
        if pair.state in OPEN_ORDERS and pair.since == batch and not again:
            found.add(source)
    return found


if __name__ == "__main__":  # python tests/tables/former.py FIRST LAST
    lived = sum(Lives(seed).run() for seed in range(int(sys.argv[1]), int(sys.argv[2])))
    print(f"{lived} batches came to the same")
