"""Random routes, behaviors, DDL and rows into DuckDB, against a model that takes one change after the other.

The model is written from docs/route.md and docs/schema-evolution.md and shares no code with the engine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tiers import crossed

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    RenameColumn,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.source import Context
from cdc.spec.model import RouteRule
from cdc.state.store import LocalStore
from cdc.testing import ListSource, block, run_in_memory
from connectors.duckdb.options import DuckDbSinkOptions

pytestmark = pytest.mark.usefixtures("files_stay_open")

NUMBERS = ["TINYINT", "INT", "BIGINT", "DOUBLE"]
RANGE = {"TINYINT": 2**7, "INT": 2**31, "BIGINT": 2**63}
TEXTS = ["VARCHAR(5)", "VARCHAR(40)"]
NAMES = {"n": NUMBERS, "m": NUMBERS, "k": NUMBERS, "t": TEXTS, "u": TEXTS}
SOURCES = ["s1.t", "s2.t", "one.x"]
Types = dict[str, str]


@dataclass
class Table:
    """A table of the model: types by column, rows by key. `sources` are the tables that go there."""

    types: Types
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    merged: bool = False


class Model:
    """The sink as the pages describe it."""

    def __init__(self, behavior: str, shard: bool) -> None:
        self.behavior, self.shard = behavior, shard
        self.tables: dict[str, Table] = {}

    def targets(self, source: str) -> list[str]:
        return ["ods.t"] if source.endswith(".t") else ["a.x", "b.x"]

    def create(self, source: str, types: Types, *, first: bool) -> None:
        """`first`: among the tables that the run begins with, before any row."""
        for name in self.targets(source):
            new = {**types, **({"shard": "VARCHAR(255)"} if self.shard and name == "ods.t" else {})}
            if name in self.tables:
                self.tables[name].merged = True
                if first or self.behavior != "ignore":
                    self.widen(self.tables[name], new)
            else:
                self.tables[name] = Table(new)

    def widen(self, table: Table, types: Types) -> None:
        for name, there in types.items():
            kinds = NUMBERS if there in NUMBERS else TEXTS
            before = table.types.get(name, there)
            table.types[name] = max(before, there, key=kinds.index) if there in kinds else there
        table.rows = {key: {name: row.get(name) for name in table.types} for key, row in table.rows.items()}

    def change(self, source: str, what: str, name: str, new: str, types: Types) -> None:
        """One change of a column: `name` becomes `new` (a name or a type); `types` are the source's after it."""
        for target in self.targets(source):
            table = self.tables[target]
            if table.merged or self.behavior == "lenient":
                if self.behavior != "ignore":
                    self.widen(table, types)
            elif self.behavior == "evolve":
                self.mirror(table, what, name, new)

    def mirror(self, table: Table, what: str, name: str, new: str) -> None:
        if what == "rename":
            table.types = {new if each == name else each: there for each, there in table.types.items()}
            table.rows = {k: {new if n == name else n: v for n, v in row.items()} for k, row in table.rows.items()}
        elif what == "drop":
            del table.types[name]
            for row in table.rows.values():
                del row[name]
        else:
            table.types[name] = new
            for row in table.rows.values():
                row.setdefault(name, None)

    def truncate(self, source: str) -> None:
        for target in self.targets(source):
            if self.behavior == "evolve" and not self.tables[target].merged:
                self.tables[target].rows.clear()

    def row(self, source: str, symbol: str, row: dict[str, Any]) -> None:
        for target in self.targets(source):
            table = self.tables[target]
            key = (row["id"], source) if self.shard and target == "ods.t" else row["id"]
            table.rows.pop(key, None)
            if symbol in ("+I", "+U"):
                full = {**row, "shard": source}
                table.rows[key] = {name: fitted(full.get(name), there) for name, there in table.types.items()}


def fitted(value: Any, there: str) -> Any:
    """The value in a column of that type, None when it does not fit."""
    if isinstance(value, float) and there in RANGE:
        value = int(value) if value == int(value) else None
    return None if there in RANGE and value is not None and not -RANGE[there] <= value < RANGE[there] else value


class World:
    """Source tables, made up step by step: items for the engine, and the model that follows."""

    def __init__(self, seed: int, behavior: str, shard: bool) -> None:
        self.random, self.model = random.Random(seed), Model(behavior, shard)
        self.types: dict[str, Types] = {}
        self.rows: dict[str, dict[int, dict[str, Any]]] = {source: {} for source in SOURCES}
        self.items: list[Any] = []

    def schema(self, source: str) -> TableSchema:
        types = self.types[source]
        return TableSchema(tuple(Column(n, DataType.parse(t), n != "id") for n, t in types.items()), ("id",))

    def make(self, steps: int) -> None:
        for source in SOURCES[:1] + SOURCES[2:]:
            self.create(source)
        for step in range(steps):
            if step == steps // 3:
                self.create(SOURCES[1])
            self.random.choice([self.write, self.write, self.write, self.alter])(self.random.choice([*self.types]))

    def create(self, source: str) -> None:
        names = self.random.sample([*NAMES], 3)
        self.types[source] = {"id": "INT", **{name: self.random.choice(NAMES[name]) for name in names}}
        self.items.append(CreateTable(TableId.parse(source), self.schema(source)))
        self.model.create(source, self.types[source], first=all(isinstance(item, CreateTable) for item in self.items))

    def value(self, there: str) -> Any:
        if self.random.random() < 0.2:
            return None
        if there in TEXTS:
            return self.random.choice(["", "a", "bc", "éé"])
        if there == "DOUBLE":
            return self.random.choice([0.5, 16.0, -3.0])
        return self.random.choice([0, 1, -5, 100, RANGE[there] // 2 if there != "BIGINT" else 2**40])

    def write(self, source: str) -> None:
        types, rows, changes = self.types[source], self.rows[source], list[tuple[str, dict[str, Any]]]()
        for _ in range(self.random.randint(1, 4)):
            key = self.random.randint(1, 6)
            new = {"id": key, **{n: self.value(t) for n, t in types.items() if n != "id"}}
            old = rows.get(key)
            if old is None:
                changes.append(("+I", new))
            elif self.random.random() < 0.3:
                changes.append(("-D", old))
            else:
                changes += [("-U", old), ("+U", new)]
            rows.pop(key, None)
            if changes[-1][0] != "-D":
                rows[key] = new
        for symbol, row in changes:
            self.model.row(source, symbol, row)
        self.items.append(block(TableId.parse(source), self.schema(source), changes, sequence=len(self.items)))

    def alter(self, source: str) -> None:
        table, types = TableId.parse(source), self.types[source]
        columns = [name for name in types if name != "id"]
        free = [name for name in NAMES if name not in types]
        what = self.random.choice(["add", "drop", "rename", "alter", "truncate"])
        if what == "truncate":
            self.items.append(TruncateTable(table))
            self.rows[source].clear()
            self.model.truncate(source)
            return
        if (what == "add" and not free) or (what != "add" and len(columns) < 2):
            return
        name = self.random.choice(free if what == "add" else columns)
        rows = self.rows[source].values()
        if what == "add":
            new = self.random.choice(NAMES[name])
            types[name] = new
            self.items.append(AddColumn(table, Column(name, DataType.parse(new))))
            for row in rows:
                row[name] = None
        elif what == "drop":
            new = ""
            del types[name]
            self.items.append(DropColumn(table, name))
            for row in rows:
                del row[name]
        elif what == "rename":
            same_kind = [other for other in free if NAMES[other] is NAMES[name]]
            if not same_kind:
                return
            new = self.random.choice(same_kind)
            self.types[source] = {new if each == name else each: there for each, there in types.items()}
            self.items.append(RenameColumn(table, name, new))
            for row in rows:
                row[new] = row.pop(name)
        else:
            kinds = NAMES[name]
            old, new = types[name], self.random.choice(kinds[kinds.index(types[name]) :])
            if old == new:
                return
            types[name] = new
            columns_of = (Column(name, DataType.parse(each)) for each in (new, old))
            self.items.append(AlterColumnType(table, *columns_of))
        self.model.change(source, what, name, new, self.types[source])


@crossed("behavior, seed", ["evolve", "lenient", "ignore"], range(5))
def test_the_sink_is_as_the_model_says(seed: int, behavior: str, tmp_path: Path) -> None:
    shard = seed % 2 == 1
    world = World(seed, behavior, shard)
    world.make(40)
    rules = [
        RouteRule(source_table=r"s\d.t", sink_table="ods.t", shard_column="shard" if shard else None),
        RouteRule(source_table=r"one.(x)", sink_table="a.$1"),
        RouteRule(source_table=r"one.\.*", sink_table="b.<>", replace_symbol="<>"),
    ]
    routing = Middle(RouteTable(rules), Policy(Behavior(behavior)), Coercion("null"))
    path = tmp_path / "sink.duckdb"
    sink = DuckDbSinkOptions(type="duckdb", path=str(path)).build(Context("p", LocalStore(tmp_path / "state" / "sink")))
    run_in_memory(ListSource(world.items), sink, middle=routing, state=tmp_path / "state", parallelism=1 + seed % 3)
    with duckdb.connect(str(path), read_only=True) as session:
        for name, table in world.model.tables.items():
            found = session.execute(f"SELECT * FROM {name}").fetchall()
            columns = [each[0] for each in session.description or ()]
            assert set(columns) == set(table.types), name
            order = sorted(columns)
            rows = sorted(repr([dict(zip(columns, row, strict=True))[n] for n in order]) for row in found)
            wanted = sorted(repr([row[n] for n in order]) for row in normal(table))
            assert rows == wanted, name


def normal(table: Table) -> list[dict[str, Any]]:
    """The model's rows with numbers as the column has them."""
    return [
        {name: float(row[name]) if there == "DOUBLE" and row[name] is not None else row[name]
         for name, there in table.types.items()}
        for row in table.rows.values()
    ]  # fmt: skip
