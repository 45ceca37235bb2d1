"""A second opinion on expressions: SQL text made at random, and beside it what plain Python says for one row.

Written without a look at the engine: three-valued logic, decimals by their rules, time by `datetime` and `zoneinfo`.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

Row = dict[str, Any]
ZONE = ZoneInfo("Asia/Shanghai")
EXACT = Context(prec=120)
DAY = dt.timedelta(days=1)


class Fails(Exception):
    """The expression has no value for this row."""


@dataclass(frozen=True)
class Expr:
    """SQL and its meaning. `kind` is int, dec, dbl, text, bool, date, ts or time; `size` a number's digits."""

    sql: str
    kind: str
    of: Callable[[Row], Any]
    size: tuple[int, int] = (0, 0)


RANGES = {"tiny": 7, "int": 31, "big": 63}
DIGITS = {31: (10, 0), 63: (19, 0)}


def strict(function: Callable[..., Any]) -> Callable[..., Callable[[Row], Any]]:
    """A function of values as one of rows: NULL when an argument is."""

    def made(*args: Expr) -> Callable[[Row], Any]:
        def of(row: Row) -> Any:
            values = [arg.of(row) for arg in args]
            return None if any(value is None for value in values) else function(*values)

        return of

    return made


def in_bits(value: int, bits: int) -> int:
    if not -(2**bits) <= value < 2**bits:
        raise Fails
    return value


def in_digits(value: Decimal, size: tuple[int, int]) -> Decimal:
    if abs(value) >= Decimal(10) ** (size[0] - size[1]):
        raise Fails
    return value


def cut(a: int, b: int) -> int:
    if b == 0:
        raise Fails
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def add_months(moment: Any, count: int) -> Any:
    month = moment.year * 12 + moment.month - 1 + count
    year, month = divmod(month, 12)
    if not 1 <= year <= 9999:
        raise Fails
    last = (dt.date(year + month // 11, (month + 1) % 12 + 1, 1) - DAY).day if (year, month) != (9999, 11) else 31
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


class Maker:
    """Makes random expressions over the columns of `tests.transform_rules`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def any(self, depth: int) -> Expr:
        return self.random.choice((self.integer, self.decimal, self.double, self.text, self.boolean, self.moment))(
            depth
        )

    def pick(self, depth: int, leaves: list[Callable[[], Expr]], deeper: list[Callable[[], Expr]]) -> Expr:
        return self.random.choice(leaves if depth <= 0 else deeper * 3 + leaves)()

    # Numbers.

    def integer(self, depth: int) -> Expr:
        def column(name: str, bits: int) -> Expr:
            return Expr(name, "int", lambda row: row.get(name), (bits, 0))

        def number() -> Expr:
            value = self.random.choice([0, 1, 2, 3, -1, 7, 100, 2**31 - 1])
            return Expr(str(value), "int", lambda row: value, (31, 0))

        def arithmetic() -> Expr:
            left, right = self.integer(depth - 1), self.integer(depth - 1)
            op = self.random.choice("+-*/%")
            bits = max(left.size[0], right.size[0], 31)

            def compute(a: int, b: int) -> int:
                if op in "/%":
                    whole = cut(a, b)
                    return in_bits(whole, bits) if op == "/" else a - whole * b
                return in_bits({"+": a + b, "-": a - b, "*": a * b}[op], bits)

            return Expr(f"({left.sql} {op} {right.sql})", "int", strict(compute)(left, right), (bits, 0))

        def absolute() -> Expr:
            arg = self.integer(depth - 1)
            return Expr(f"ABS({arg.sql})", "int", strict(lambda a: in_bits(abs(a), arg.size[0]))(arg), arg.size)

        def negative() -> Expr:
            arg = self.integer(depth - 1)
            bits = max(arg.size[0], 31)
            return Expr(f"(- ({arg.sql}))", "int", strict(lambda a: in_bits(-a, bits))(arg), (bits, 0))

        def size() -> Expr:
            arg = self.text(depth - 1)
            return Expr(f"CHAR_LENGTH({arg.sql})", "int", strict(len)(arg), (31, 0))

        def where() -> Expr:
            arg, what = self.text(depth - 1), self.text(0)
            return Expr(
                f"POSITION({what.sql} IN {arg.sql})", "int", strict(lambda w, s: s.find(w) + 1)(what, arg), (31, 0)
            )

        def of_bool() -> Expr:
            arg = self.boolean(depth - 1)
            return Expr(f"CAST({arg.sql} AS INT)", "int", strict(int)(arg), (31, 0))

        def of_decimal() -> Expr:
            arg = self.decimal(depth - 1)
            return Expr(f"CAST({arg.sql} AS INT)", "int", strict(lambda a: in_bits(int(a), 31))(arg), (31, 0))

        def part() -> Expr:
            arg = self.moment(depth - 1)
            unit = self.random.choice(["YEAR", "MONTH", "DAY", "DAYOFYEAR", "QUARTER", "WEEK", "DAYOFWEEK"])
            parts: dict[str, Callable[[Any], int]] = {
                "YEAR": lambda m: m.year, "MONTH": lambda m: m.month, "DAY": lambda m: m.day,
                "DAYOFYEAR": lambda m: m.timetuple().tm_yday, "QUARTER": lambda m: (m.month + 2) // 3,
                "WEEK": lambda m: m.isocalendar()[1], "DAYOFWEEK": lambda m: m.isoweekday() % 7 + 1,
            }  # fmt: skip
            return Expr(f"EXTRACT({unit} FROM {arg.sql})", "int", strict(lambda m: parts[unit](wall(m)))(arg), (63, 0))

        def apart() -> Expr:
            left, right = self.moment(depth - 1), self.moment(depth - 1)
            return Expr(
                f"TIMESTAMPDIFF(DAY, {left.sql}, {right.sql})", "int",
                strict(lambda a, b: cut((stamp(b) - stamp(a)) // dt.timedelta(microseconds=1), 86400 * 10**6))(
                    left, right), (63, 0),
            )  # fmt: skip

        leaves = [lambda: column("tiny", 7), lambda: column("n", 31), lambda: column("id", 63), number]
        return self.pick(
            depth, leaves,
            [arithmetic, arithmetic, absolute, negative, size, where, of_bool, of_decimal, part, apart,
             lambda: self.choice(self.integer, depth)],
        )  # fmt: skip

    def decimal(self, depth: int) -> Expr:
        def number() -> Expr:
            text = self.random.choice(["0.5", "1.25", "-3.75", "10.0", "99999.99"])
            digits = text.lstrip("-").replace(".", "").lstrip("0") or "0"
            scale = len(text.partition(".")[2])
            return Expr(text, "dec", lambda row: Decimal(text), (max(len(digits), scale), scale))

        def plus() -> Expr:
            left, right = self.decimal(depth - 1), self.decimal(depth - 1)
            (p1, s1), (p2, s2) = left.size, right.size
            scale = max(s1, s2)
            size = (max(p1 - s1, p2 - s2) + scale + 1, scale)
            if size[0] > 30:
                return number()
            op, compute = self.random.choice([("+", EXACT.add), ("-", EXACT.subtract)])
            of = strict(lambda a, b: in_digits(compute(a, b), size))(left, right)
            return Expr(f"({left.sql} {op} {right.sql})", "dec", of, size)

        def times() -> Expr:
            left, right = self.decimal(depth - 1), self.decimal(depth - 1)
            size = (left.size[0] + right.size[0], left.size[1] + right.size[1])
            if size[0] > 30:
                return number()
            return Expr(
                f"({left.sql} * {right.sql})", "dec", strict(lambda a, b: EXACT.multiply(a, b) + 0)(left, right), size
            )

        def rounded() -> Expr:
            arg = self.decimal(depth - 1)
            size = (12, 1)
            of = strict(lambda a: in_digits(a.quantize(Decimal("0.1"), ROUND_HALF_UP, EXACT) + 0, size))(arg)
            return Expr(f"CAST({arg.sql} AS DECIMAL(12, 1))", "dec", of, size)

        leaves = [lambda: Expr("d", "dec", lambda row: row.get("d"), (10, 2)), number]
        return self.pick(depth, leaves, [plus, times, rounded])

    def double(self, depth: int) -> Expr:
        def arithmetic() -> Expr:
            left, right = self.double(depth - 1), self.random.choice((self.double, self.integer))(depth - 1)
            op = self.random.choice("+-*")
            compute = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op]
            return Expr(
                f"({left.sql} {op} {right.sql})", "dbl", strict(lambda a, b: compute(float(a), float(b)))(left, right)
            )

        leaves = [lambda: Expr("g", "dbl", lambda row: row.get("g")), lambda: Expr("1.5e0", "dbl", lambda row: 1.5)]
        return self.pick(depth, leaves, [arithmetic])

    # Text.

    def text(self, depth: int) -> Expr:
        def constant() -> Expr:
            value = self.random.choice(["", "a", "B", "ab", "it's", "%", "é", " x "])
            quoted = value.replace("'", "''")
            return Expr(f"'{quoted}'", "text", lambda row: value)

        def simple() -> Expr:
            arg = self.text(depth - 1)
            name, compute = self.random.choice([
                ("UPPER", str.upper), ("LOWER", str.lower), ("TRIM", lambda s: s.strip(" ")),
                ("REVERSE", lambda s: s[::-1]),
                ("LTRIM", lambda s: s.lstrip(" ")),
            ])  # fmt: skip
            return Expr(f"{name}({arg.sql})", "text", strict(compute)(arg))

        def joined() -> Expr:
            left, right = self.text(depth - 1), self.text(depth - 1)
            return Expr(f"({left.sql} || {right.sql})", "text", strict(operator.add)(left, right))

        def with_separator() -> Expr:
            args = [self.text(depth - 1) for _ in range(3)]

            def of(row: Row) -> Any:
                return "-".join(value for arg in args if (value := arg.of(row)) is not None)

            return Expr(f"CONCAT_WS('-', {', '.join(arg.sql for arg in args)})", "text", of)

        def piece() -> Expr:
            arg, start, size = self.text(depth - 1), self.random.randint(-4, 5), self.random.randint(0, 4)

            def compute(s: str) -> str:
                if start < 0 and -start > len(s):
                    return ""
                begin = start - 1 if start > 0 else len(s) + start if start < 0 else 0
                return s[begin : begin + size]

            return Expr(f"SUBSTRING({arg.sql}, {start}, {size})", "text", strict(compute)(arg))

        def padded() -> Expr:
            arg, count = self.text(depth - 1), self.random.randint(0, 6)
            return Expr(f"LPAD({arg.sql}, {count}, 'xy')", "text", strict(
                lambda s: s[:count] if len(s) >= count else ("xyxyxyxy"[: count - len(s)] + s))(arg))  # fmt: skip

        def replaced() -> Expr:
            arg, what, by = self.text(depth - 1), self.text(0), self.text(0)
            compute = strict(lambda s, w, b: s.replace(w, b) if w else s)
            return Expr(f"REPLACE({arg.sql}, {what.sql}, {by.sql})", "text", compute(arg, what, by))

        def of_number() -> Expr:
            arg = self.random.choice((self.integer, self.decimal))(depth - 1)
            scale = arg.size[1] if arg.kind == "dec" else 0

            def compute(value: Any) -> str:
                return f"{value.quantize(Decimal(1).scaleb(-scale), context=EXACT):f}" if scale else str(value)

            return Expr(f"CAST({arg.sql} AS STRING)", "text", strict(compute)(arg))

        def of_instant() -> Expr:
            return Expr("CAST(l AS STRING)", "text", lambda row: None if row.get("l") is None else
                        row["l"].astimezone(ZONE).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3])  # fmt: skip

        def of_bytes() -> Expr:
            name, compute = self.random.choice([
                ("TO_BASE64", lambda b: base64.b64encode(b).decode()), ("MD5", lambda b: hashlib.md5(b).hexdigest()),
                ("SHA256", lambda b: hashlib.sha256(b).hexdigest()),
            ])  # fmt: skip
            return Expr(f"{name}(b)", "text", lambda row: None if row.get("b") is None else compute(row["b"]))

        def of_json() -> Expr:
            def of(row: Row) -> Any:
                return None if row.get("j") is None else json.loads(row["j"]).get("k")

            return Expr("JSON_VALUE(j, '$.k')", "text", of)

        leaves = [
            lambda: Expr("s", "text", lambda row: row.get("s")), lambda: Expr("v", "text", lambda row: row.get("v")),
            constant,
        ]  # fmt: skip
        return self.pick(
            depth, leaves,
            [simple, joined, with_separator, piece, padded, replaced, of_number, of_instant, of_bytes, of_json,
             lambda: self.choice(self.text, depth)],
        )  # fmt: skip

    # Moments.

    def moment(self, depth: int) -> Expr:
        def shifted() -> Expr:
            arg, count = self.moment(depth - 1), self.random.randint(-40, 40)
            unit = self.random.choice(["MONTH", "DAY"])

            def compute(m: Any) -> Any:
                if unit == "MONTH":
                    return add_months(m, count)
                return m + count * DAY

            sql = f"TIMESTAMPADD({unit}, {count}, {arg.sql})" if self.random.random() < 0.5 else (
                f"({arg.sql} {'-' if count < 0 else '+'} INTERVAL '{abs(count)}' {unit})")  # fmt: skip
            return Expr(sql, arg.kind, strict(compute)(arg))

        leaves = [
            lambda: Expr("day", "date", lambda row: row.get("day")), lambda: Expr("t", "ts", lambda row: row.get("t")),
        ]  # fmt: skip
        return self.pick(depth, leaves, [shifted])

    # Conditions.

    def boolean(self, depth: int) -> Expr:
        def compared() -> Expr:
            family = self.random.choice(["number", "text", "moment", "bool", "time"])
            make = {"number": self.number, "text": self.text, "moment": self.moment, "bool": self.boolean,
                    "time": lambda _: Expr("c", "time", lambda row: row.get("c"))}[family]  # fmt: skip
            left, right = make(depth - 1), make(depth - 1)
            name, compute = self.random.choice([
                ("=", operator.eq), ("<>", operator.ne), ("<", operator.lt), ("<=", operator.le), (">", operator.gt),
                (">=", operator.ge),
            ])  # fmt: skip
            return Expr(
                f"({left.sql} {name} {right.sql})", "bool", strict(lambda a, b: compute(*alike(a, b)))(left, right)
            )

        def distinct() -> Expr:
            left, right = self.number(depth - 1), self.number(depth - 1)

            def of(row: Row) -> bool:
                a, b = left.of(row), right.of(row)
                return (a is None) != (b is None) if a is None or b is None else operator.ne(*alike(a, b))

            return Expr(f"({left.sql} IS DISTINCT FROM {right.sql})", "bool", of)

        def logic() -> Expr:
            name, stop = self.random.choice([("AND", False), ("OR", True)])
            args = [self.boolean(depth - 1) for _ in range(self.random.randint(2, 3))]

            def of(row: Row) -> Any:
                unknown = False
                for arg in args:
                    value = arg.of(row)
                    if value is stop:
                        return stop
                    unknown = unknown or value is None
                return None if unknown else not stop

            return Expr(f"({f' {name} '.join(arg.sql for arg in args)})", "bool", of)

        def negated() -> Expr:
            arg = self.boolean(depth - 1)
            return Expr(f"(NOT {arg.sql})", "bool", strict(operator.not_)(arg))

        def null() -> Expr:
            arg = self.any(depth - 1)
            return Expr(f"({arg.sql} IS NULL)", "bool", lambda row: arg.of(row) is None)

        def truth() -> Expr:
            arg, wanted = self.boolean(depth - 1), self.random.choice([True, False])
            return Expr(f"({arg.sql} IS NOT {str(wanted).upper()})", "bool", lambda row: arg.of(row) is not wanted)

        def listed() -> Expr:
            arg, values = self.integer(depth - 1), [self.random.choice([0, 1, 7, None]) for _ in range(3)]
            texts = ", ".join("NULL" if value is None else str(value) for value in values)

            def of(row: Row) -> Any:
                value = arg.of(row)
                if value is None:
                    return None
                return True if value in values else None if None in values else False

            return Expr(f"({arg.sql} IN ({texts}))", "bool", of)

        def between() -> Expr:
            arg = self.integer(depth - 1)
            return Expr(f"({arg.sql} BETWEEN -5 AND 50)", "bool", strict(lambda a: -5 <= a <= 50)(arg))

        def like() -> Expr:
            arg = self.text(depth - 1)
            pattern, test = self.random.choice([
                ("a%", lambda s: s.startswith("a")), ("%b", lambda s: s.endswith("b")), ("_", lambda s: len(s) == 1),
                ("%b%", lambda s: "b" in s), ("", lambda s: s == ""), ("%.%", lambda s: "." in s),
            ])  # fmt: skip
            return Expr(f"({arg.sql} LIKE '{pattern}')", "bool", strict(test)(arg))

        leaves = [lambda: Expr("z", "bool", lambda row: row.get("z")), lambda: Expr("TRUE", "bool", lambda row: True)]
        return self.pick(
            depth, leaves,
            [compared, compared, distinct, logic, logic, negated, null, truth, listed, between, like,
             lambda: self.choice(self.boolean, depth)],
        )  # fmt: skip

    def number(self, depth: int) -> Expr:
        return self.random.choice((self.integer, self.decimal, self.double))(depth)

    # Choices.

    def choice(self, make: Callable[[int], Expr], depth: int) -> Expr:
        when, first, second = self.boolean(depth - 1), make(depth - 1), make(depth - 1)
        size = max(first.size, second.size)
        form = self.random.randrange(3)
        if form == 0:
            sql = f"CASE WHEN {when.sql} THEN {first.sql} ELSE {second.sql} END"
            return Expr(sql, first.kind, lambda row: (first if when.of(row) is True else second).of(row), size)
        if form == 1:
            sql = f"COALESCE({first.sql}, {second.sql})"

            def of(row: Row) -> Any:
                value = first.of(row)
                return second.of(row) if value is None else value

            return Expr(sql, first.kind, of, size)

        def unless(row: Row) -> Any:
            value, other = first.of(row), second.of(row)
            return None if value is not None and other is not None and value == other else value

        return Expr(f"NULLIF({first.sql}, {second.sql})", first.kind, unless, first.size)


def wall(moment: Any) -> Any:
    """A moment as it is seen in the session's zone."""
    return moment.astimezone(ZONE).replace(tzinfo=None) if getattr(moment, "tzinfo", None) else moment


def stamp(moment: Any) -> dt.datetime:
    return moment if isinstance(moment, dt.datetime) else dt.datetime(moment.year, moment.month, moment.day)


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values as they compare: floats when one is, moments as timestamps."""
    if isinstance(a, dt.date) and isinstance(b, dt.date):
        return stamp(a), stamp(b)
    if isinstance(a, float) or isinstance(b, float):
        return float(a), float(b)
    return a, b


def row(source: random.Random, number: int) -> Row:
    """A random row with many NULLs and edge values."""

    def maybe(*values: Any) -> Any:
        return None if source.random() < 0.2 else source.choice(values)

    return {
        "id": number, "n": maybe(0, 1, 7, -3, 2**31 - 1, -(2**31), source.randint(-100, 100)),
        "tiny": maybe(0, 1, -128, 127), "d": maybe(*(Decimal(x) for x in ("0.00", "12.34", "-0.05", "99999999.99"))),
        "g": maybe(0.0, 1.5, -2.25, 1e10), "s": maybe("", "a", "ab", "Hello Wörld", "  x ", "b.%"),
        "v": maybe("", "B", "it's", "äb"), "b": maybe(b"", b"xy", b"\xff"), "z": maybe(True, False),
        "t": maybe(dt.datetime(2024, 1, 31, 3, 4, 5, 678000), dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
                   dt.datetime(2000, 2, 29)),
        "l": maybe(dt.datetime(2024, 1, 31, 18, 4, 5, 678000, tzinfo=dt.UTC), dt.datetime(1991, 7, 1, tzinfo=dt.UTC)),
        "day": maybe(dt.date(2024, 1, 31), dt.date(1900, 3, 1), dt.date(2024, 12, 30)),
        "c": maybe(dt.timedelta(0), -dt.timedelta(hours=25), dt.timedelta(hours=800, microseconds=1)),
        "j": maybe('{"k": "v"}', '{"a": 1}', '{"k": "é"}'),
    }  # fmt: skip
