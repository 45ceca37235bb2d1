"""Rules, routes and behaviors in plain Python, one row and one change at a time: what a sink's tables have to hold.

Written from docs/transform.md, docs/route.md and docs/schema-evolution.md; it shares no code with the engine.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
Type = tuple[Any, ...]
Types = dict[str, Type]
ANY: Type = ("ANY",)
"""Of computed columns: their values always fit."""
STRING: Type = ("STRING",)
HASH_KEY = "a key of the test's own"
MIRRORS = ("evolve", "try_evolve")
_WHOLE = {"INT": 10, "BIGINT": 19}
_PARTS = {
    "add.column": ("add", "column"), "alter.column.type": ("alter", "column"), "rename.column": ("rename", "column"),
    "drop.column": ("drop", "column"), "truncate.table": ("truncate", "table"), "drop.table": ("drop", "table"),
}  # fmt: skip


def wider(left: Type, right: Type) -> Type:
    """The table of docs/route.md."""
    if left == right:
        return left
    if ANY in (left, right):
        return ANY
    kinds = {left[0], right[0]}
    if kinds == {"INT", "BIGINT"}:
        return ("BIGINT",)
    if kinds <= {"INT", "BIGINT", "DECIMAL"}:
        (whole, scale), (other, digits) = _digits(left), _digits(right)
        return ("DECIMAL", max(whole, other) + max(scale, digits), max(scale, digits))
    if kinds <= {"INT", "BIGINT", "DOUBLE"}:
        return ("DOUBLE",)
    if kinds == {"VARCHAR"}:
        return max(left, right)
    if kinds == {"TIMESTAMP"}:
        return max(left, right)
    return ("TIMESTAMP", 6) if kinds == {"DATE", "TIMESTAMP"} else STRING


def _digits(kind: Type) -> tuple[int, int]:
    return (kind[1] - kind[2], kind[2]) if kind[0] == "DECIMAL" else (_WHOLE[kind[0]], 0)


def text(value: Any) -> str:
    """A value in a column of text."""
    if isinstance(value, datetime):
        whole = value.isoformat()
        return whole.rstrip("0") if "." in whole else whole
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def fitted(value: Any, source: Type, there: Type) -> Any:
    """A value of the source in a column of the sink; None when it cannot be there."""
    if value is None or there == ANY:
        return value
    if there[0] in ("STRING", "VARCHAR"):
        return value if isinstance(value, str) else text(value)
    if there[0] in ("INT", "BIGINT"):
        bits = 31 if there[0] == "INT" else 63
        return int(value) if value == int(value) and -(2**bits) <= value < 2**bits else None
    if there[0] == "DECIMAL":
        number, whole = Decimal(value), there[1] - there[2]
        kept = abs(number) < 10**whole and number == round(number, there[2])
        return round(number, there[2]) if kept else None
    if there[0] == "DATE" and isinstance(value, datetime):
        return value.date() if value == datetime(value.year, value.month, value.day) else None
    if there[0] == "TIMESTAMP" and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return None if there == ("TIMESTAMP", 0) and value.microsecond else value


# rules


@dataclass(frozen=True)
class Computed:
    """A column that a rule adds."""

    name: str
    sql: str
    of: Callable[[Row], Any]


def strict(function: Callable[..., Any], *names: str) -> Callable[[Row], Any]:
    """NULL when one of the columns is."""

    def of(row: Row) -> Any:
        values = [row[name] for name in names]
        return None if None in values else function(*values)

    return of


def _like(row: Row) -> bool | None:
    return None if row["v"] is None else row["v"].startswith("a")


def _both(row: Row) -> bool | None:
    """AND of three-valued logic: n >= 0 and v like 'a%'."""
    sides = [None if row["n"] is None else row["n"] >= 0, _like(row)]
    return False if False in sides else None if None in sides else True


def _keyed(value: str) -> str:
    return hmac.new(HASH_KEY.encode(), value.encode(), hashlib.sha256).hexdigest()


COMPUTED = (
    Computed("more", "n + 7", strict(lambda n: n + 7, "n")),
    Computed("upper", "UPPER(v)", strict(str.upper, "v")),
    Computed("joined", "v || '-' || CAST(n AS VARCHAR)", strict(lambda v, n: f"{v}-{n}", "v", "n")),
    Computed("filled", "COALESCE(n, -1)", lambda row: -1 if row["n"] is None else row["n"]),
    Computed("size", "IF(n > 3, 'big', 'small')", lambda row: "big" if (row["n"] or 0) > 3 else "small"),
    Computed("long", "CHAR_LENGTH(v)", strict(len, "v")),
    Computed("part", "SUBSTR(v, 1, 2)", strict(lambda v: v[:2], "v")),
    Computed("total", "d * n", strict(lambda d, n: d * n, "d", "n")),
    Computed("missing", "n IS NULL", lambda row: row["n"] is None),
    Computed("tried", "TRY_CAST(v AS INT)", strict(lambda v: int(v) if v.isdigit() else None, "v")),
    Computed("from_table", "__table_name__", lambda row: row["__table__"]),
    Computed("hashed", "HASH(v)", strict(_keyed, "v")),
)  # fmt: skip
FILTERS: tuple[tuple[str, Callable[[Row], Any]], ...] = (
    ("n >= 0", strict(lambda n: n >= 0, "n")),
    ("n >= 0 AND v LIKE 'a%'", _both),
    ("v IS NOT NULL", lambda row: row["v"] is not None),
    ("NOT (n = 3)", strict(lambda n: n != 3, "n")),
    ("n IN (1, 2, 3) OR d > 1.5", lambda row: row["n"] in (1, 2, 3) or (row["d"] or 0) > 1.5),
    ("COALESCE(n, 0) BETWEEN 0 AND 6", lambda row: 0 <= (row["n"] or 0) <= 6),
)  # fmt: skip
MASKS: dict[str, Callable[[str], str]] = {
    "REDACT": lambda value: "[redacted]",
    "TRUNCATE_TEXT(2)": lambda value: value[:2],
    "MASK": lambda value: "*" * len(value),
    "MASK(1)": lambda value: "*" * (len(value) - 1) + value[-1:] if len(value) > 1 else "*" * len(value),
}


@dataclass(frozen=True)
class Rule:
    """One entry of `transform`. `star`: the source's columns pass; else id, n under another name, and v."""

    star: bool = True
    computed: tuple[Computed, ...] = ()
    filter: tuple[str, Callable[[Row], Any]] | None = None
    mask: str = ""
    soft: bool = False

    def yaml(self, tables: str) -> Row:
        parts = [r"\*"] if self.star else ["id", "n AS num", "v"]
        parts += [f"{each.sql} AS {each.name}" for each in self.computed]
        if self.soft:
            parts.append("__data_event_type__ = '-D' AS gone")
        entry: Row = {"source-table": tables, "projection": ", ".join(parts)}
        entry |= {"filter": self.filter[0]} if self.filter is not None else {}
        entry |= {"mask": {"v": self.mask}} if self.mask else {}
        return entry | ({"converter-after-transform": "SOFT_DELETE"} if self.soft else {})

    def types(self, source: Types) -> Types:
        """The columns after the rule."""
        types = {**source} if self.star else {"id": source["id"], "num": source["n"], "v": source["v"]}
        types |= {each.name: ANY for each in self.computed} | ({"gone": ANY} if self.soft else {})
        return types | ({"v": ANY} if self.mask else {})

    def row(self, row: Row, table: str, *, deleted: bool) -> Row | None:
        """The row after the rule, None when it does not pass."""
        seen = {**row, "__table__": table}
        if self.filter is not None and not self.filter[1](seen):
            return None
        made = {**row} if self.star else {"id": row["id"], "num": row["n"], "v": row["v"]}
        made |= {each.name: each.of(seen) for each in self.computed} | ({"gone": deleted} if self.soft else {})
        if self.mask and row["v"] is not None:
            made["v"] = MASKS[self.mask](row["v"])
        return made

    def images(self, before: Row | None, after: Row | None, table: str) -> list[tuple[str, Row]]:
        """What is left of a change; an update has both rows. `put` or `take`."""
        old = None if before is None else self.row(before, table, deleted=after is None)
        new = None if after is None else self.row(after, table, deleted=False)
        if self.soft and old is not None and new is None:
            return [("put", old)]
        return [(word, row) for word, row in (("take", old), ("put", new)) if row is not None]


# sinks


@dataclass
class Sink:
    """A sink table. `key` names what tells rows apart, empty where nothing does."""

    types: Types
    key: tuple[str, ...]
    merged: bool = False
    rows: list[Row] = field(default_factory=list)

    def put(self, row: Row, source: Types) -> None:
        if self.key:
            self.take(row, source)
        self.rows.append(self._fitted(row, source))

    def take(self, row: Row, source: Types) -> None:
        gone = self._fitted(row, source)
        names = self.key or tuple(self.types)
        for index, there in enumerate(self.rows):
            if all(there[name] == gone[name] for name in names):
                del self.rows[index]
                return

    def _fitted(self, row: Row, source: Types) -> Row:
        return {name: fitted(row.get(name), source.get(name, ANY), there) for name, there in self.types.items()}

    def widen(self, name: str, kind: Type, default: Any = None) -> None:
        """Room for values of a type; a column that is missing is added."""
        if name in self.types:
            kind = wider(self.types[name], kind)
            for row in self.rows:
                row[name] = fitted(row[name], self.types[name], kind)
        else:
            for row in self.rows:
                row[name] = default
        self.types[name] = kind

    def retype(self, name: str, kind: Type) -> None:
        for row in self.rows:
            row[name] = fitted(row[name], self.types[name], kind)
        self.types[name] = kind

    def rename(self, old: str, new: str) -> None:
        for each in (self.types, *self.rows):
            each[new] = each.pop(old)

    def drop(self, name: str) -> None:
        for each in (self.types, *self.rows):
            del each[name]


@dataclass
class Behavior:
    """`schema.change.behavior` with its filters: what a change after the rule does to a sink table."""

    name: str
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    def allows(self, change: str) -> bool:
        if self.name == "ignore":
            return False
        if self.exclude is None and self.name == "lenient" and change in ("truncate.table", "drop.table"):
            return False
        if any(part == change or part in _PARTS[change] for part in self.exclude or ()):
            return False
        return self.include is None or any(part == change or part in _PARTS[change] for part in self.include)

    def merge(self, sink: Sink, types: Types) -> None:
        """Room in a table that several go to for one of them."""
        for name, kind in types.items():
            if name not in sink.types:
                if self.allows("add.column"):
                    sink.widen(name, kind)
            elif wider(sink.types[name], kind) != sink.types[name] and self.allows("alter.column.type"):
                sink.widen(name, kind)

    def add(self, sink: Sink, name: str, kind: Type, default: Any) -> None:
        if self.allows("add.column"):
            sink.widen(name, kind, default)

    def drop(self, sink: Sink, name: str) -> None:
        if self.allows("drop.column") and self.name in MIRRORS and name in sink.types:
            sink.drop(name)

    def rename(self, sink: Sink, old: str, new: str, kind: Type) -> None:
        if not self.allows("rename.column"):
            return
        if self.name == "lenient":
            sink.widen(new, kind)
        elif old in sink.types and new not in sink.types:
            sink.rename(old, new)

    def retype(self, sink: Sink, name: str, old: Type, kind: Type) -> None:
        if not self.allows("alter.column.type"):
            return
        if self.name == "lenient":
            sink.widen(name, kind)
        elif name in sink.types:
            if sink.types[name] == old:
                sink.retype(name, kind)
            else:
                sink.widen(name, kind)


def plain(value: Any) -> Any:
    """A value however a driver gives it: numbers as decimals, text as text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool | int):
        return Decimal(int(value))
    if isinstance(value, float):
        return Decimal(repr(value))
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def shown(rows: list[Row], names: list[str]) -> list[str]:
    """Rows as comparable text, in an order of their own."""
    return sorted(repr([_shown(plain(row[name])) for name in names]) for row in rows)


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return f"number {value.normalize():f}" if isinstance(value, Decimal) else value
