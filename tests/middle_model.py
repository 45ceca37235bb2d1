"""A second opinion on what is between source and sink: random pipelines, and what plain Python makes of their input.

Row at a time, written from the docs: rules, then routes, then what a behavior does to columns. A sink table is either a
mirror (one source table, evolve) or a union: whatever columns ever were, each as wide as it ever had to be.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from cdc.testing import run_cases

Row = dict[str, Any]
STEPS = 30
WIDTH = {"INT": 0, "BIGINT": 1, "STRING": 2}


@dataclass
class Sink:
    """One sink table: types by column name, rows by key."""

    mirror: bool
    columns: dict[str, str] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)

    def widen(self, name: str, kind: str) -> None:
        there = self.columns.get(name)
        if there is None:
            self.columns[name] = kind
            for row in self.rows.values():
                row[name] = None
        elif WIDTH[kind] > WIDTH[there] or (self.mirror and kind != there):
            self.columns[name] = kind
            for row in self.rows.values():
                row[name] = converted(row[name], kind)

    def image(self, kind: str, row: Row) -> None:
        if kind in ("+I", "+U"):
            self.rows[row["id"]] = {name: converted(row.get(name), of) for name, of in self.columns.items()}
        else:
            self.rows.pop(row["id"], None)


def converted(value: Any, kind: str) -> Any:
    return str(value) if kind == "STRING" and value is not None else value


@dataclass
class Rule:
    """`\\*, n + add AS c` and a filter; `soft` makes deletes inserts."""

    add: int | None = None
    least: int | None = None
    soft: bool = False

    def yaml(self, tables: str) -> Row:
        rule: Row = {"source-table": tables}
        if self.add is not None:
            rule["projection"] = rf"\*, n + {self.add} AS c"
        if self.least is not None:
            rule["filter"] = f"n >= {self.least}"
        if self.soft:
            rule["converter-after-transform"] = "SOFT_DELETE"
        return rule

    def columns(self, source: dict[str, str]) -> dict[str, str]:
        return source if self.add is None else {**source, "c": source["n"]}

    def row(self, row: Row) -> Row | None:
        """The row after the rule, None when it does not pass."""
        if self.least is not None and (row["n"] is None or row["n"] < self.least):
            return None
        return row if self.add is None else {**row, "c": None if row["n"] is None else row["n"] + self.add}

    def images(self, kind: str, before: Row | None, after: Row | None) -> list[tuple[str, Row]]:
        """What is left of a change; an update has both rows."""
        old, new = (None if row is None else self.row(row) for row in (before, after))
        if kind == "update":
            if old is not None and new is not None:
                return [("-U", old), ("+U", new)]
            if old is not None:
                return [("+I" if self.soft else "-D", old)]
            return [] if new is None else [("+I", new)]
        if kind == "insert":
            return [] if new is None else [("+I", new)]
        return [] if old is None else [("+I" if self.soft else "-D", old)]


class Middle:
    """A pipeline made at random, its input as it grows, and the tables that have to come out."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.tables = ["s1.t", "s2.t", "s1.u"]
        self.behavior = pick(["evolve", "lenient", None])
        self.rules = {
            table: Rule(pick([None, 1, 10]), pick([None, 0, 5]), pick([False, False, True])) for table in self.tables
        }
        self.routes = pick([
            [],
            [(r"s[0-9].t", "m.t")],
            [(r"s1.\.*", "a.all"), ("s2.t", "b.t")],
            [("s1.t", "a.t"), (r"s[0-9].t", "m.t")],
        ])  # fmt: skip
        self.sources: dict[str, dict[str, str]] = {}
        self.alive: dict[str, dict[int, Row]] = {}
        self.sinks: dict[str, Sink] = {}
        self.lines: list[Row] = []
        self.count = 0
        for table in self.tables:
            self.create(table)

    def targets(self, table: str) -> list[str]:
        members = {r"s[0-9].t": {"s1.t", "s2.t"}, r"s1.\.*": {"s1.t", "s1.u"}}
        found = [sink for pattern, sink in self.routes if table in members.get(pattern, {pattern})]
        return found or [table]

    def pipeline(self) -> Row:
        rules = [self.rules[table].yaml(table) for table in self.tables]
        document: Row = {"transform": [rule for rule in rules if len(rule) > 1]}
        document["route"] = [{"source-table": source, "sink-table": sink} for source, sink in self.routes]
        if self.behavior is not None:
            document["pipeline"] = {"schema.change.behavior": self.behavior}
        return {key: value for key, value in document.items() if value}

    def mirrors(self, sink: str) -> bool:
        return self.behavior == "evolve" and sum(sink in self.targets(table) for table in self.tables) == 1

    # what the source does

    def create(self, table: str) -> None:
        columns = {"id": "INT", "n": self.random.choice(["INT", "BIGINT"]), "x": self.random.choice(["INT", "STRING"])}
        self.sources[table], self.alive[table] = columns, {}
        shown = [{"name": name, "type": kind, "nullable": name != "id"} for name, kind in columns.items()]
        self.change("create.table", table, schema={"columns": shown, "primary_key": ["id"]})
        for sink in self.targets(table):
            self.sinks.setdefault(sink, Sink(self.mirrors(sink)))
        self.follow(table)

    def change(self, kind: str, table: str, **keys: Any) -> None:
        self.lines.append({"change": kind, "table": table, **keys})

    def follow(self, table: str) -> None:
        """The sinks take the columns that the table has after its rule by now."""
        for sink in self.targets(table):
            for name, kind in self.rules[table].columns(self.sources[table]).items():
                self.sinks[sink].widen(name, kind)

    def step(self) -> None:
        table = self.random.choice(self.tables)
        does = self.random.choice([self.insert] * 5 + [self.update] * 5 + [self.delete] * 2 + [self.alter] * 2)
        does(table)

    def alter(self, table: str) -> None:
        self.random.choice([self.add, self.add, self.drop, self.rename, self.retype, self.truncate, self.again])(table)

    def spare(self, table: str) -> list[str]:
        return [name for name in self.sources[table] if name not in ("id", "n")]

    def add(self, table: str) -> None:
        self.count += 1
        name = self.random.choice([f"k{self.count}", "x", "k1"])
        if name in self.sources[table]:
            return
        kind = self.random.choice(list(WIDTH))
        self.sources[table][name] = kind
        position = self.random.choice([{}, {"position": "first"}, {"position": {"after": "id"}}])
        self.change("add.column", table, column={"name": name, "type": kind}, **position)
        for row in self.alive[table].values():
            row[name] = None
        self.follow(table)

    def drop(self, table: str) -> None:
        if not self.spare(table):
            return
        name = self.random.choice(self.spare(table))
        del self.sources[table][name]
        for row in self.alive[table].values():
            del row[name]
        self.change("drop.column", table, name=name)
        for sink in self.targets(table):
            if self.sinks[sink].mirror:
                del self.sinks[sink].columns[name]
                for row in self.sinks[sink].rows.values():
                    del row[name]

    def rename(self, table: str) -> None:
        self.count += 1
        if not self.spare(table):
            return
        old, new = self.random.choice(self.spare(table)), f"r{self.count}"
        for each in (self.sources[table], *self.alive[table].values()):
            each[new] = each.pop(old)
        self.change("rename.column", table, old_name=old, new_name=new)
        for sink in self.targets(table):
            if self.sinks[sink].mirror:
                for each in (self.sinks[sink].columns, *self.sinks[sink].rows.values()):
                    each[new] = each.pop(old)
        self.follow(table)

    def retype(self, table: str) -> None:
        name = self.random.choice(["n", *self.spare(table)])
        old = self.sources[table][name]
        kind = "BIGINT" if name == "n" else self.random.choice([each for each in WIDTH if WIDTH[each] >= WIDTH[old]])
        self.sources[table][name] = kind
        for row in self.alive[table].values():
            row[name] = converted(row[name], kind)
        self.change("alter.column.type", table, column={"name": name, "type": kind}, old={"name": name, "type": old})
        self.follow(table)

    def truncate(self, table: str) -> None:
        self.alive[table].clear()
        self.change("truncate.table", table)
        for sink in self.targets(table):
            if self.sinks[sink].mirror:
                self.sinks[sink].rows.clear()

    def again(self, table: str) -> None:
        self.change("drop.table", table)
        for sink in self.targets(table):
            if self.sinks[sink].mirror:
                del self.sinks[sink]
        self.create(table)

    def row(self, table: str, key: int) -> Row:
        def value(name: str, kind: str) -> Any:
            if name == "id":
                return key
            if self.random.random() < 0.2:
                return None
            number = self.random.randrange(-3, 12)
            return f"t{number}" if kind == "STRING" else number

        return {name: value(name, kind) for name, kind in self.sources[table].items()}

    def insert(self, table: str) -> None:
        free = [key for key in range(8) if key not in self.alive[table]]
        if free:
            row = self.row(table, self.random.choice(free))
            self.alive[table][row["id"]] = row
            self.write(table, "insert", None, row)

    def update(self, table: str) -> None:
        if self.alive[table]:
            before = self.alive[table].pop(self.random.choice(list(self.alive[table])))
            free = [key for key in range(8) if key not in self.alive[table]]
            after = self.row(table, self.random.choice([before["id"], before["id"], *free]))
            self.alive[table][after["id"]] = after
            self.write(table, "update", before, after)

    def delete(self, table: str) -> None:
        if self.alive[table]:
            self.write(table, "delete", self.alive[table].pop(self.random.choice(list(self.alive[table]))), None)

    def write(self, table: str, kind: str, before: Row | None, after: Row | None) -> None:
        symbols = {"insert": ("", "+I"), "update": ("-U", "+U"), "delete": ("-D", "")}[kind]
        for symbol, row in zip(symbols, (before, after), strict=True):
            if row is not None:
                self.lines.append({"op": symbol, "table": table, "row": dict(row)})
        for symbol, row in self.rules[table].images(kind, before, after):
            for sink in self.targets(table):
                self.sinks[sink].image(symbol, row)


# the pipeline beside it


def made(seed: int) -> Middle:
    middle = Middle(seed)
    for _ in range(STEPS):
        middle.step()
    return middle


def carried_out(lines: Iterable[dict[str, Any]]) -> dict[str, Sink]:
    """The tables after the lines of a sink, without their columns' types in the end."""
    tables: dict[str, Sink] = {}
    for line in lines:
        table = line["table"]
        if "op" in line:
            sink = tables[table]
            if line["op"] in ("+I", "+U"):
                sink.rows[line["row"]["id"]] = dict(line["row"])
            else:
                sink.rows.pop(line["row"]["id"], None)
            continue
        _change(tables, line)
    return tables


def _change(tables: dict[str, Sink], line: dict[str, Any]) -> None:
    table = line["table"]
    rows = tables[table].rows.values() if table in tables else ()
    match line["change"]:
        case "create.table":
            tables.setdefault(table, Sink(mirror=True))
            for column in line["schema"]["columns"]:
                tables[table].widen(column["name"], column["type"])
        case "add.column" | "alter.column.type":
            tables[table].widen(line["column"]["name"], line["column"]["type"])
        case "rename.column":
            for each in (tables[table].columns, *rows):
                each[line["new_name"]] = each.pop(line["old_name"])
        case "drop.column":
            for each in (tables[table].columns, *rows):
                del each[line["name"]]
        case "truncate.table":
            tables[table].rows.clear()
        case "drop.table":
            del tables[table]
        case other:
            raise AssertionError(f"the model knows no {other}")


def compared(middle: Middle, result: Any) -> str:
    """What differs, empty when nothing does."""
    if result.error is not None:
        return str(result.error)
    actual = carried_out(map(json.loads, result.output))
    for name, wanted in middle.sinks.items():
        found = actual.get(name)
        if found is None:
            return f"{name} is not there"
        if found.columns != wanted.columns:
            return f"{name} has {found.columns}, wanted {wanted.columns}"
        if found.rows != wanted.rows:
            return f"{name} holds {found.rows}, wanted {wanted.rows}"
        columns = {column["name"]: column["type"] for column in result.schemas[name]["columns"]}
        if columns != wanted.columns:
            return f"{name} says it has {columns}, wanted {wanted.columns}"
    return "" if actual.keys() == middle.sinks.keys() else f"there are {sorted(actual)}"


def differing(seeds: Iterable[int]) -> list[str]:
    """What pipelines of these seeds do otherwise than the model says; nothing when they agree."""
    middles = [(seed, made(seed)) for seed in seeds]
    cases = [
        {"name": str(seed), "pipeline": yaml.safe_dump(middle.pipeline()), "input": middle.lines}
        for seed, middle in middles
    ]
    results = run_cases(cases)
    found = ((seed, compared(middle, result)) for (seed, middle), result in zip(middles, results, strict=True))
    return [f"seed {seed}: {text}" for seed, text in found if text]
