"""Random rules, routes and behaviors over a live server: what is written there, and the model that follows it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from rule_model import (
    COMPUTED,
    FILTERS,
    HASH_KEY,
    MASKS,
    MIRRORS,
    STRING,
    Behavior,
    Row,
    Rule,
    Sink,
    Type,
    Types,
)

FAMILIES: dict[str, list[Type]] = {
    "x": [("INT",), ("BIGINT",), ("DECIMAL", 24, 2)],
    "y": [("VARCHAR", 8), ("VARCHAR", 20), STRING],
    "z": [("DATE",), ("TIMESTAMP", 0), ("TIMESTAMP", 3)],
    "w": [("DECIMAL", 6, 2), ("DECIMAL", 10, 4)],
    "e": [("DOUBLE",)],
}
"""Types of the columns x, x2, y, y2, ...: each holds the values of those before it."""
BEHAVIORS = ("evolve", "evolve", "evolve", "try_evolve", "lenient", "lenient", "ignore", "exception")
FILTERED = ((None, None), (None, None), (None, ()), (None, ("drop",)), (None, ("rename",)), (None, ("add.column",)),
            (("add", "alter"), None), (("column",), None), (None, ("alter.column.type", "truncate")))  # fmt: skip


def declared(kind: Type) -> str:
    """A type as the server spells it."""
    name, *sizes = kind
    name = {"STRING": "TEXT", "TIMESTAMP": "DATETIME"}.get(name, name)
    return f"{name}({', '.join(map(str, sizes))})" if sizes else str(name)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return (
        f"'{value.isoformat(sep=' ')}'"
        if isinstance(value, datetime)
        else f"'{value}'"
        if isinstance(value, date)
        else str(value)
    )


@dataclass
class Table:
    """A table of the source. `own` are ids that no other table uses."""

    database: str
    name: str
    keyed: bool
    rule: Rule
    targets: list[tuple[str, str]]
    own: range
    types: Types = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    there: bool = False

    @property
    def id(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def sql(self) -> str:
        return f"`{self.database}`.`{self.name}`"


class World:
    """Tables in two databases, made up step by step. `statements` are what the server has to run since `taken`."""

    def __init__(self, seed: int, databases: tuple[str, str], *, load: bool = False) -> None:
        self.random, self.databases, self.load = random.Random(seed), databases, load
        pick = self.random.choice
        include, exclude = pick(FILTERED)
        self.behavior = Behavior(pick(BEHAVIORS), include, exclude)
        self.statements: list[str] = []
        self.sinks: dict[str, Sink] = {}
        self.stopped = False
        self.began = False
        self.mixed = self.random.random() < 0.4 and self.behavior.allows("alter.column.type")
        names = [(0, "t"), (1, "t"), (0, "u")] + ([] if load else [(0, "log"), (1, "log")])
        routes = self._routes(pick(["none", "merge", "shard", "groups", "symbol"]))
        self.routes = [entry for entry, _ in routes]
        self.tables = []
        shared = self._rule(keyed=True)
        for place, (database, name) in enumerate(names):
            rule = shared if name == "t" and self.random.random() < 0.6 else self._rule(keyed=name != "log")
            targets = [target for entry, goes in routes if (target := goes(databases[database], name)) is not None]
            targets = targets or [(f"{databases[database]}.{name}", "")]
            own = range(100 * place + 10, 100 * place + 18)
            self.tables.append(Table(databases[database], name, name != "log", rule, targets, own))
        self.late = pick([None, self.tables[1]]) if self.behavior.name != "exception" else None

    def _routes(self, kind: str) -> list[tuple[Row, Any]]:
        one, two = self.databases
        ods = f"{one}_ods"
        merge = [
            (
                {"source-table": f"({one}|{two}).t", "sink-table": f"{ods}.t"},
                lambda d, n: (f"{ods}.t", "") if n == "t" else None,
            ),
            (
                {"source-table": rf"({one}|{two}).log", "sink-table": f"{ods}.log"},
                lambda d, n: (f"{ods}.log", "") if n == "log" else None,
            ),
        ]
        twice = [
            (
                {"source-table": f"{one}.u", "sink-table": f"{ods}.u1"},
                lambda d, n: (f"{ods}.u1", "") if n == "u" else None,
            ),
            (
                {"source-table": f"{one}.u", "sink-table": f"{ods}.u2"},
                lambda d, n: (f"{ods}.u2", "") if n == "u" else None,
            ),
        ]
        match kind:
            case "merge":
                return [*merge, *twice]
            case "shard":
                entry = {**merge[0][0], "shard-column": "origin"}
                return [(entry, lambda d, n: (f"{ods}.t", "origin") if n == "t" else None), *twice]
            case "groups":
                entry = {"source-table": rf"({one}|{two}).(t|u|log)", "sink-table": f"{ods}.$2_$1"}
                return [(entry, lambda d, n: (f"{ods}.{n}_{d}", ""))]
            case "symbol":
                entry = {"source-table": rf"{one}.\.*", "sink-table": f"{ods}.of_<>", "replace-symbol": "<>"}
                return [(entry, lambda d, n: (f"{ods}.of_{n}", "") if d == one else None)]
            case _:
                return []

    def _rule(self, *, keyed: bool) -> Rule:
        draw = self.random
        mask = draw.choice(["", "", "", *MASKS])
        known = [each for each in COMPUTED if not mask or "v" not in each.sql.replace("CAST(n AS VARCHAR)", "")]
        computed = tuple(draw.sample(known, draw.randint(0, 3)))
        condition = draw.choice([None, *FILTERS])
        soft = keyed and draw.random() < 0.2
        return Rule(draw.random() < 0.8, computed, condition, mask, soft)

    def pipeline(self) -> Row:
        """The file's blocks but source and sink."""
        settings = {
            "schema.change.behavior": self.behavior.name,
            "schema.change.lost-values": "null",
            "hash-key": HASH_KEY,
        }
        return {
            "transform": [table.rule.yaml(table.id) for table in self.tables],
            **({"route": self.routes} if self.routes else {}),
            "pipeline": settings,
        }

    def filters(self) -> Row:
        """More keys of the sink."""
        found = {}
        if self.behavior.include is not None:
            found["include.schema.changes"] = list(self.behavior.include)
        if self.behavior.exclude is not None:
            found["exclude.schema.changes"] = list(self.behavior.exclude)
        return found

    # steps

    def begin(self) -> None:
        """The tables that are there when the pipeline starts, with rows to be copied."""
        for table in self.tables:
            if table is not self.late:
                self.create(table)
                for number in table.own:
                    if self.random.random() < 0.7:
                        self.insert(table, [number])
        self.began = True

    def steps(self, number: int) -> None:
        for _ in range(number):
            table = self.random.choice([table for table in self.tables if table.there])
            does = self.random.choice([self.some_rows, self.some_rows, self.some_rows, self.alter])
            does(table)
        if self.late is not None and not self.late.there:
            self.create(self.late)
            self.insert(self.late, list(self.late.own)[:3])

    def take(self) -> list[str]:
        """The statements since the last call."""
        taken, self.statements = self.statements, []
        return taken

    # rows

    def value(self, kind: Type) -> Any:
        draw = self.random
        if draw.random() < 0.2:
            return None
        match kind[0]:
            case "INT":
                return draw.choice([0, 1, -5, 3, 2**31 - 1])
            case "BIGINT":
                return draw.choice([0, 7, -(2**40), 2**63 - 1])
            case "DECIMAL":
                return round(Decimal(draw.choice(["0", "1.5", "-3.25", "12.34"])), kind[2])
            case "DOUBLE":
                return draw.choice([0.5, -3.25, 1.0, 4096.0])
            case "DATE":
                return date(2024, draw.randint(1, 12), draw.randint(1, 28))
            case "TIMESTAMP":
                fraction = draw.choice([0, 500_000]) if kind[1] else 0
                return datetime(2024, draw.randint(1, 12), 5, draw.choice([0, 13]), 0, 0, fraction)
        return draw.choice(["", "a", "abc", "Äb", "it's", "12", "x y "])

    def row(self, table: Table, number: int) -> Row:
        made = {name: self.value(kind) for name, kind in table.types.items()}
        if made["n"] is not None:
            made["n"] = self.random.randrange(-3, 12)
        return {**made, "id": number}

    def free(self, table: Table) -> list[int]:
        taken = {row["id"] for row in table.rows} if table.keyed else set()
        return [number for number in [*table.own, *([1, 2, 3] if self.began else [])] if number not in taken]

    def some_rows(self, table: Table) -> None:
        together = self.random.random() < 0.3
        if together:
            self.statements.append("BEGIN")
        for _ in range(self.random.randint(1, 4)):
            self.random.choice([self.insert, self.insert, self.update, self.update, self.delete, self.count])(table)
        if together:
            self.statements.append("COMMIT")

    def insert(self, table: Table, numbers: list[int] | None = None) -> None:
        free = self.free(table)
        numbers = numbers or self.random.sample(free, min(len(free), self.random.randint(1, 3)))
        rows = [self.row(table, number) for number in numbers]
        if not rows:
            return
        values = ", ".join(f"({', '.join(map(literal, row.values()))})" for row in rows)
        names = ", ".join(f"`{name}`" for name in rows[0])
        self.statements.append(f"INSERT INTO {table.sql} ({names}) VALUES {values}")
        for row in rows:
            table.rows.append(row)
            self.write(table, None, row)

    def update(self, table: Table) -> None:
        if not table.rows:
            return
        number = self.random.choice(table.rows)["id"]
        free = self.free(table)
        new = self.random.choice(free) if table.keyed and free and self.random.random() < 0.15 else number
        chosen = self.random.sample(list(table.types), self.random.randint(1, len(table.types)))
        values = {name: value for name, value in self.row(table, new).items() if name in chosen or name == "id"}
        self.change(table, values, [row for row in table.rows if row["id"] == number], f"id = {number}")

    def count(self, table: Table) -> None:
        """One statement that changes many rows."""
        rows = [row for row in table.rows if row["n"] is not None and row["n"] < 8]
        if rows:
            self.statements.append(f"UPDATE {table.sql} SET n = n + 1 WHERE n < 8")
            for row in rows:
                self.put(table, row, {**row, "n": row["n"] + 1})

    def change(self, table: Table, values: Row, rows: list[Row], where: str) -> None:
        settings = ", ".join(f"`{name}` = {literal(value)}" for name, value in values.items())
        self.statements.append(f"UPDATE {table.sql} SET {settings} WHERE {where}")
        for row in rows:
            self.put(table, row, {**row, **values})

    def put(self, table: Table, old: Row, new: Row) -> None:
        if old != new:
            table.rows[next(index for index, row in enumerate(table.rows) if row is old)] = new
            self.write(table, old, new)

    def delete(self, table: Table) -> None:
        if not table.rows:
            return
        number = self.random.choice(table.rows)["id"]
        self.statements.append(f"DELETE FROM {table.sql} WHERE id = {number}")
        for row in [row for row in table.rows if row["id"] == number]:
            table.rows = [each for each in table.rows if each is not row]
            self.write(table, row, None)

    def write(self, table: Table, before: Row | None, after: Row | None) -> None:
        """The change in the sinks."""
        if self.stopped:
            return
        types = table.rule.types(table.types)
        for word, row in table.rule.images(before, after, table.name):
            for name, shard in table.targets:
                sink = self.sinks[name]
                (sink.put if word == "put" else sink.take)({**row, shard: table.id} if shard else row, types)

    # tables

    def create(self, table: Table) -> None:
        kept = table.types if not self.mixed and table.types else {}
        number = self.random.choice([("INT",), ("BIGINT",)])
        base = {"id": ("INT",), "n": number, "v": ("VARCHAR", self.random.choice([10, 30])), "d": ("DECIMAL", 8, 2)}
        table.types = {
            **base,
            **{name: self.random.choice(self.kinds(name)) for name in self.random.sample([*FAMILIES], 2)},
        }
        table.types |= {
            name: max(kind, kept[name], key=self.rank(name)) for name, kind in table.types.items() if name in kept
        }
        table.rows, table.there = [], True
        columns = ", ".join(f"`{name}` {declared(kind)}" for name, kind in table.types.items())
        key = ", PRIMARY KEY (id)" if table.keyed else ""
        self.statements.append(f"CREATE TABLE {table.sql} ({columns}{key})")
        if not self.stopped:
            for name, shard in table.targets:
                self.created(table, name, shard)

    def rank(self, name: str) -> Any:
        kinds: Any = {"n": [("INT",), ("BIGINT",)], "v": [("VARCHAR", 10), ("VARCHAR", 30)]}.get(name)
        return (kinds or FAMILIES.get(name[0], [])).index if kinds or name[0] in FAMILIES else lambda kind: 0

    def kinds(self, name: str) -> list[Type]:
        """The types that a column of this name may have."""
        if not self.mixed or name[0] == "e":
            return FAMILIES[name[0]]
        unlike = ("DOUBLE", "TIMESTAMP") if self.load else ("DOUBLE",)
        return [kind for family in FAMILIES.values() for kind in family if kind[0] not in unlike]

    def behind(self, table: Table, shard: str) -> Types:
        types = table.rule.types(table.types)
        return {**types, shard: ("VARCHAR", 255)} if shard else types

    def created(self, table: Table, name: str, shard: str) -> None:
        types, sink = self.behind(table, shard), self.sinks.get(name)
        others = [other for other in self.tables if other is not table and other.there]
        if sink is None:
            key = ("id", *([shard] if shard else [])) if table.keyed else ()
            self.sinks[name] = Sink(types, key)
            return
        sink.merged = sink.merged or any(name == target for other in others for target, _ in other.targets)
        mirrored = not sink.merged and self.behavior.name in MIRRORS and {*sink.types} <= {*types}
        if not self.began or mirrored:
            for column, kind in types.items():
                sink.widen(column, kind)
        else:
            self.behavior.merge(sink, types)

    def alter(self, table: Table) -> None:
        does = [self.add, self.add, self.drop, self.rename, self.retype, self.retype, self.truncate, self.again]
        self.random.choice(does)(table)

    def spare(self, table: Table) -> list[str]:
        return [name for name in table.types if name not in ("id", "n", "v", "d")]

    def unused(self, table: Table) -> list[str]:
        return [name for each in FAMILIES for name in (each, f"{each}2") if name not in table.types]

    def targets(self, table: Table, *, seen: bool = True) -> list[tuple[Sink, Types]]:
        """The sinks that a change reaches, each with the columns of the table after its rule; none after a stop."""
        if seen and self.behavior.name == "exception":
            self.stopped = True
        if self.stopped or not seen:
            return []
        return [(self.sinks[name], self.behind(table, shard)) for name, shard in table.targets]

    def add(self, table: Table) -> None:
        name = self.random.choice(self.unused(table))
        kind = self.random.choice(self.kinds(name))
        # Rows of other tables get a default too, if they are there by then: which those are is a matter of batches.
        alone = not any(name in self.sinks and self.sinks[name].merged for name, _ in table.targets)
        default = self.random.choice([None, 4]) if kind[0] in ("INT", "BIGINT") and alone else None
        place = self.random.choice(["", " FIRST", " AFTER n"])
        told = f" DEFAULT {default}" if default is not None else ""
        self.statements.append(f"ALTER TABLE {table.sql} ADD COLUMN `{name}` {declared(kind)}{told}{place}")
        table.types[name] = kind
        for row in table.rows:
            row[name] = default
        for sink, types in self.targets(table, seen=table.rule.star):
            if sink.merged:
                self.behavior.merge(sink, types)
            else:
                self.behavior.add(sink, name, kind, default)

    def is_copied(self, table: Table, *, keyless: bool = False) -> bool:
        """Whether a change re-snapshots a mirror of several tables: known here is how rows change, not copies."""
        sinks = [self.sinks[name] for name, _ in table.targets if name in self.sinks]
        return self.behavior.allows("truncate.table") and any(
            sink.merged and not (keyless and sink.key) for sink in sinks
        )

    def drop(self, table: Table) -> None:
        if not self.spare(table) or self.is_copied(table, keyless=True):
            return
        name = self.random.choice(self.spare(table))
        self.statements.append(f"ALTER TABLE {table.sql} DROP COLUMN `{name}`")
        for each in (table.types, *table.rows):
            del each[name]
        for sink, types in self.targets(table, seen=table.rule.star):
            if sink.merged:
                self.behavior.merge(sink, types)
            else:
                self.behavior.drop(sink, name)

    def rename(self, table: Table) -> None:
        if not self.spare(table) or self.is_copied(table, keyless=True):
            return
        old = self.random.choice(self.spare(table))
        free = [
            name for name in self.unused(table) if name[0] == old[0] or (self.mixed and "e" not in (name[0], old[0]))
        ]
        if not free:
            return
        new = self.random.choice(free)
        self.statements.append(f"ALTER TABLE {table.sql} RENAME COLUMN `{old}` TO `{new}`")
        for each in (table.types, *table.rows):
            each[new] = each.pop(old)
        for sink, types in self.targets(table, seen=table.rule.star):
            if sink.merged:
                self.behavior.merge(sink, types)
            else:
                self.behavior.rename(sink, old, new, table.types[new])

    def retype(self, table: Table) -> None:
        name = self.random.choice(["n", *self.spare(table)])
        kinds = (
            [("INT",), ("BIGINT",)]
            if name == "n"
            else next(family for family in FAMILIES.values() if table.types[name] in family)
        )
        old = table.types[name]
        later = kinds[kinds.index(old) + 1 :]
        if not later:
            return
        new = self.random.choice(later)
        self.statements.append(f"ALTER TABLE {table.sql} MODIFY COLUMN `{name}` {declared(new)}")
        table.types[name] = new
        for row in table.rows:
            row[name] = _converted(row[name], new)
        behind = name if table.rule.star else {"n": "num"}.get(name)
        for sink, types in self.targets(table, seen=behind is not None):
            if sink.merged:
                self.behavior.merge(sink, types)
            else:
                assert behind is not None
                self.behavior.retype(sink, behind, old, new)

    def truncate(self, table: Table) -> None:
        self.statements.append(f"TRUNCATE TABLE {table.sql}")
        table.rows = []
        for sink, _ in self.targets(table):
            if not sink.merged and self.behavior.allows("truncate.table"):
                sink.rows = []

    def again(self, table: Table) -> None:
        """Dropped and created, perhaps with other columns."""
        if self.is_copied(table):
            return
        self.statements.append(f"DROP TABLE {table.sql}")
        table.there = False
        for sink, _ in self.targets(table):
            if not sink.merged and self.behavior.allows("drop.table"):
                for name in [name for name, each in self.sinks.items() if each is sink]:
                    del self.sinks[name]
        self.create(table)


def _converted(value: Any, kind: Type) -> Any:
    """What the server makes of a value when its column gets a wider type."""
    if value is None or kind[0] in ("BIGINT", "VARCHAR", "STRING", "DOUBLE"):
        return value
    if kind[0] == "DECIMAL":
        return round(Decimal(value), kind[2])
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
