"""What functions of rules mean, each as a line of plain Python, and their answers for random values.

The names of a line's arguments are columns of `SCHEMA`; NULL in one of them means NULL, unless the line says otherwise.
Where a MySQL server answers alike, it has the same judged once more (`MySql`).
"""

from __future__ import annotations

import base64
import datetime as dt
import inspect
import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

from expression_model import Fails, Row, add_months, cut, in_bits
from transform_rules import applied, rule

from cdc.schema import Column, DataType, TableSchema
from cdc.transform.compiled import CompiledRule
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine

ROWS = 40
KINDS = {
    "id": "BIGINT", "s": "VARCHAR(60)", "p": "VARCHAR(60)", "q": "VARCHAR(60)", "n": "BIGINT", "m": "INT", "i": "INT",
    "u": "BIGINT UNSIGNED", "d": "DECIMAL(20, 4)", "e": "DECIMAL(10, 2)", "g": "DOUBLE", "t": "TIMESTAMP(6)",
    "v": "TIMESTAMP(3)", "day": "DATE", "c": "TIME(6)", "j": "JSON",
}  # fmt: skip
SCHEMA = TableSchema(
    tuple(Column(name, DataType.parse(kind), nullable=name != "id") for name, kind in KINDS.items()), ("id",)
)
EXACT = Context(prec=100)
SECOND = dt.timedelta(seconds=1)
SAME, NOWHERE = "same", ""


@dataclass(frozen=True)
class Answer:
    """One expression: its SQL, its meaning, and MySQL's spelling (`NOWHERE` where MySQL means another thing)."""

    sql: str
    of: Callable[..., Any]
    mysql: str = NOWHERE
    nulls: bool = False

    def at(self, row: Row) -> Any:
        """The value for a row, `Fails` when there is none."""
        values = [row[name] for name in inspect.signature(self.of).parameters]
        if not self.nulls and any(value is None for value in values):
            return None
        try:
            return self.of(*values)
        except (Fails, OverflowError):
            return Fails


def piece(s: str, n: int, m: int) -> str:
    if m < 0:
        raise Fails
    start = max(n, 1) - 1 if n >= 0 else len(s) + n
    return s[start : start + m] if start >= 0 else ""


def find(p: str, s: str, n: int) -> int:
    return 0 if n < 1 or n > len(s) + 1 else s.find(p, n - 1) + 1


def pad(s: str, m: int, p: str, *, left: bool) -> str | None:
    if m < 0 or p == "":
        return None
    more = (p * m)[: max(m - len(s), 0)]
    return s[:m] if len(s) >= m else more + s if left else s + more


def strip(s: str, p: str, sides: str) -> str:
    while "l" in sides and s and s[0] in p:
        s = s[1:]
    while "r" in sides and s and s[-1] in p:
        s = s[:-1]
    return s


def over(s: str, p: str, n: int, length: int) -> str:
    if not 1 <= n <= len(s):
        return s
    return s[: n - 1] + p + (s[n - 1 + length :] if length >= 0 else "")


def part(s: str, p: str, m: int) -> str | None:
    pieces = s.split(p) if p else list(s) or [""]
    return pieces[m] if 0 <= m < len(pieces) else None


def rounded(d: Decimal, places: int, how: str = ROUND_HALF_UP) -> Decimal:
    return d.quantize(Decimal(1).scaleb(-places), how, EXACT) + 0


def number(s: str, pattern: str, make: Callable[[str], Any]) -> Any:
    if not re.fullmatch(rf"\s*{pattern}\s*", s, re.ASCII):
        raise Fails
    return make(s.strip())


def moved(day: dt.date, count: int, unit: str) -> Any:
    if unit in ("MONTH", "YEAR"):
        return add_months(day, count * (12 if unit == "YEAR" else 1))
    return day + dt.timedelta(days=count * (7 if unit == "WEEK" else 1))


def months(v: dt.datetime, t: dt.datetime) -> int:
    """Whole months from `v` to `t`, toward zero."""
    if t < v:
        return -months(t, v)
    whole = (t.year - v.year) * 12 + t.month - v.month
    return whole - ((t.day, t.time()) < (v.day, v.time()))


def seconds(c: dt.timedelta) -> int:
    return abs(c) // SECOND


def inside(j: str, *path: Any) -> Any:
    """The text at a path, None when there is none."""
    found = json.loads(j, parse_float=str)
    for step in path:
        if isinstance(found, dict) and isinstance(step, str):
            found = found.get(step)
        elif isinstance(found, list) and isinstance(step, int):
            found = found[step] if 0 <= step < len(found) else None
        else:
            return None
    if found is None or isinstance(found, str):
        return found
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


ANSWERS = [
    Answer("LEFT(s, n)", lambda s, n: s[: max(n, 0)], SAME),
    Answer("RIGHT(s, n)", lambda s, n: s[-n:] if n > 0 else "", SAME),
    Answer("SUBSTRING(s, n, m)", piece),
    Answer("SUBSTRING(s, n)", lambda s, n: piece(s, n, 99)),
    Answer("LOCATE(p, s, n)", find, SAME),
    Answer("POSITION(p IN s)", lambda p, s: s.find(p) + 1, SAME),
    Answer("LPAD(s, m, p)", lambda s, m, p: pad(s, m, p, left=True)),
    Answer("RPAD(s, m, p)", lambda s, m, p: pad(s, m, p, left=False)),
    Answer("REPEAT(s, m)", lambda s, m: s * m, SAME),
    Answer("REPLACE(s, p, q)", lambda s, p, q: s.replace(p, q) if p else s, SAME),
    Answer("REVERSE(s)", lambda s: s[::-1], SAME),
    Answer("TRIM(s)", lambda s: s.strip(" "), SAME),
    Answer("BTRIM(s, p)", lambda s, p: strip(s, p, "lr")),
    Answer("LTRIM(s, p)", lambda s, p: strip(s, p, "l")),
    Answer("RTRIM(s, p)", lambda s, p: strip(s, p, "r")),
    Answer("OVERLAY(s PLACING p FROM n FOR m)", lambda s, p, n, m: over(s, p, n, m), "INSERT(s, n, m, p)"),
    Answer("OVERLAY(s PLACING p FROM n)", lambda s, p, n: over(s, p, n, len(p)), "INSERT(s, n, CHAR_LENGTH(p), p)"),
    Answer("SPLIT_INDEX(s, p, m)", part),
    Answer("CHAR_LENGTH(s)", lambda s: len(s), SAME),
    Answer("STARTSWITH(s, p)", lambda s, p: s.startswith(p), "LEFT(s, CHAR_LENGTH(p)) = p"),
    Answer("ENDSWITH(s, p)", lambda s, p: s.endswith(p), "RIGHT(s, CHAR_LENGTH(p)) = p"),
    Answer("TO_BASE64(s)", lambda s: base64.b64encode(s.encode()).decode()),
    Answer("FROM_BASE64(TO_BASE64(s))", lambda s: s),
    Answer("TRUNCATE_TEXT(s, n)", lambda s, n: s[: max(n, 0)], "LEFT(s, n)"),
    Answer("MASK(s, m)", lambda s, m: "*" * len(s) if m <= 0 or len(s) <= m else "*" * (len(s) - m) + s[-m:]),
    Answer("CONCAT_WS(s, p, q)", lambda s, p, q: None if s is None else s.join(x for x in (p, q) if x is not None),
           SAME, nulls=True),
    Answer("REGEXP_INSTR(s, '[a-z]$')", lambda s: m.start() + 1 if (m := re.search(r"[a-z]\Z", s)) else 0),
    Answer("REGEXP_INSTR(s, 'b|x')", lambda s: m.start() + 1 if (m := re.search("b|x", s)) else 0,
           "REGEXP_INSTR(s, 'b|x', 1, 1, 0, 'c')"),
    Answer("REGEXP_REPLACE(s, '(a)(b)?', '[$2$1]')", lambda s: re.sub("(a)(b)?", r"[\2\1]", s),
           "REGEXP_REPLACE(s, '(a)(b)?', '[$2$1]', 1, 0, 'c')"),
    Answer("REGEXP_COUNT(s, '[aeiou]')", lambda s: len(re.findall("[aeiou]", s))),
    Answer("REGEXP_EXTRACT(s, 'x(.)', 1)", lambda s: m[1] if (m := re.search("x(.)", s)) else None),
    Answer("s LIKE '%b_'", lambda s: len(s) > 1 and s[-2] == "b", SAME),
    Answer("ABS(d)", lambda d: abs(d), SAME),
    Answer("CEIL(d)", lambda d: rounded(d, 0, ROUND_CEILING), SAME),
    Answer("FLOOR(d)", lambda d: rounded(d, 0, ROUND_FLOOR), SAME),
    Answer("ROUND(d)", lambda d: rounded(d, 0), SAME),
    Answer("ROUND(d, 2)", lambda d: rounded(d, 2), SAME),
    Answer("ROUND(d, -2)", lambda d: rounded(d, -2), SAME),
    Answer("ROUND(n, -1)", lambda n: in_bits(int(rounded(Decimal(n), -1)), 63)),
    Answer("d % e", lambda d, e: EXACT.remainder(d, e) + 0 if e else cut(1, 0), SAME),
    Answer("n % m", lambda n, m: n - cut(n, m) * m, SAME),
    Answer("i / m", lambda i, m: in_bits(cut(i, m), 31), "i DIV m"),
    Answer("u - n", lambda u, n: Decimal(u) - n, "CAST(u AS DECIMAL(30)) - n"),
    Answer("u > n", lambda u, n: u > n, SAME),
    Answer("SIGN(d)", lambda d: (d > 0) - (d < 0), SAME),
    Answer("GREATEST(i, m)", lambda i, m: max((x for x in (i, m) if x is not None), default=None), nulls=True),
    Answer("COALESCE(i, m, 7)", lambda i, m: next(x for x in (i, m, 7) if x is not None), SAME, nulls=True),
    Answer("NULLIF(i, m)", lambda i, m: None if i == m else i, SAME, nulls=True),
    Answer("CASE i WHEN m THEN 'same' WHEN 0 THEN 'none' ELSE s END",
           lambda i, m, s: "same" if i is not None and i == m else "none" if i == 0 else s, SAME, nulls=True),
    Answer("CAST(d AS BIGINT)", lambda d: int(d), "TRUNCATE(d, 0)"),
    Answer("CAST(d AS DECIMAL(18, 1))", lambda d: rounded(d, 1), SAME),
    Answer("CAST(s AS INT)", lambda s: in_bits(number(s, r"[+-]?\d+", int), 31)),
    Answer("CAST(s AS DECIMAL(30, 10))", lambda s: number(s, r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", Decimal)),
    Answer("CAST(n AS STRING)", lambda n: str(n), "CAST(n AS CHAR)"),
    Answer("CAST(d AS STRING)", lambda d: f"{d.quantize(Decimal('0.0001'), context=EXACT):f}", "CAST(d AS CHAR)"),
    Answer("CAST(v AS STRING)", lambda v: f"{v.year:04d}{v:-%m-%d %H:%M:%S.%f}"[:23], "CAST(v AS CHAR)"),
    Answer("CAST(t AS TIMESTAMP(3))", lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    Answer("CAST(t AS DATE)", lambda t: t.date(), SAME),
    Answer("HOUR(c)", lambda c: seconds(c) // 3600, SAME),
    Answer("SECOND(c)", lambda c: seconds(c) % 60, SAME),
    Answer("WEEK(day)", lambda day: day.isocalendar()[1], "WEEK(day, 3)"),
    Answer("DAYOFWEEK(day)", lambda day: day.isoweekday() % 7 + 1, SAME),
    Answer("TIMESTAMPADD(MONTH, m, day)", lambda m, day: moved(day, m, "MONTH")),
    Answer("TIMESTAMPADD(WEEK, m, t)", lambda m, t: moved(t, m, "WEEK")),
    Answer("day - INTERVAL '1' YEAR", lambda day: moved(day, -1, "YEAR")),
    Answer("DATE_ADD(day, m)", lambda day, m: moved(day, m, "DAY")),
    Answer("TIMESTAMPDIFF(MONTH, v, t)", months, SAME),
    Answer("TIMESTAMPDIFF(YEAR, v, t)", lambda v, t: cut(months(v, t), 12), SAME),
    Answer("TIMESTAMPDIFF(SECOND, v, t)", lambda v, t: cut((t - v) // (SECOND / 1_000_000), 1_000_000), SAME),
    Answer("TIMESTAMP_DIFF('DAY', v, t)", lambda v, t: cut((t - v) // (SECOND / 1_000_000), 86_400_000_000),
           "TIMESTAMPDIFF(DAY, v, t)"),
    Answer("DATE_FORMAT(t, 'yy/M/d hh:mm a')", lambda t: f"{t:%y}/{t.month}/{t.day} {t:%I:%M %p}",
           "DATE_FORMAT(t, '%y/%c/%e %h:%i %p')"),
    Answer("DATE_TRUNC('month', day)", lambda day: day.replace(day=1)),
    Answer("JSON_VALUE(j, '$.a')", lambda j: inside(j, "a")),
    Answer("JSON_VALUE(j, '$.c[1]')", lambda j: inside(j, "c", 1)),
    Answer("JSON_VALUE(j, '$.\"a.b\"')", lambda j: inside(j, "a.b")),
    Answer("JSON_VALUE(j['*'], '$')", lambda j: inside(j, "*")),
    Answer("JSON_VALUE(j['q\"q'], '$')", lambda j: inside(j, 'q"q')),
    Answer("JSON_VALUE(j['a/b'], '$')", lambda j: inside(j, "a/b")),
    Answer("JSON_VALUE(j['0'], '$')", lambda j: inside(j, "0")),
    Answer("JSON_VALUE(j[m], '$')", lambda j, m: inside(j, m - 1) if m > 0 else None),
]  # fmt: skip
TEXTS = ["", "a", "ab", "abc", "Ab", "a b", "  x ", "héllo", "e\u0301x", "😀x😀", "日本語", "%", "a_b", "it's",
         ",a,,b,", "xyxyx", "aXbx", "1", "-1.5", " 12 ", "1e3", "0x1F", "1_000", "\u0661", "99999999999"]  # fmt: skip
MOMENTS = [dt.datetime(*parts) for parts in (
    (2024, 1, 31, 3, 4, 5, 678901), (2024, 2, 29), (1969, 12, 31, 23, 59, 59, 999999), (2023, 2, 28, 23, 59, 59),
    (1, 1, 1), (9999, 12, 31, 12), (2021, 1, 3),
)]  # fmt: skip
JSONS = ['{"a": 1, "c": [1, "x", {"d": true}], "a.b": 5, "0": "zero"}', "[1, 2, 3]", '"text"', "{}", "null",
         '{"a": "é", "q\\"q": "q", "*": "star", "a/b": "b"}', '{"a": null, "c": "text"}']  # fmt: skip
DECIMALS = [Decimal(x) for x in ("0", "0.05", "-0.05", "2.5", "-2.5", "12.34", "-12.35", "99999999.99")]


def values(source: random.Random, number_of: int) -> Row:
    """A row with edge values and NULLs."""

    def some(*choices: Any) -> Any:
        return None if source.random() < 0.15 else source.choice(choices)

    text = [some(*TEXTS) for _ in range(3)]
    wide = [0, 1, -1, 2, 3, 5, -2, 40, 2**63 - 1, -(2**63), 2**32, 10**12, -15]
    return {
        "id": number_of, "s": text[0], "p": text[1], "q": text[2], "n": some(*wide), "m": some(0, 1, 2, 3, -1, -3, 7),
        "i": some(0, 1, 2, -1, 2**31 - 1, -(2**31)), "u": some(0, 1, 2**64 - 1, 2**63),
        "d": some(*DECIMALS, Decimal("-12.3456")),
        "e": some(*DECIMALS), "g": some(0.0, 1.5, -2.5, 1e20), "t": some(*MOMENTS),
        "v": some(*(x.replace(microsecond=x.microsecond // 1000 * 1000) for x in MOMENTS)),
        "day": some(*(x.date() for x in MOMENTS)),
        "c": some(dt.timedelta(0), dt.timedelta(hours=25, seconds=61), -dt.timedelta(hours=838, seconds=59.5)),
        "j": some(*JSONS),
    }  # fmt: skip


def rows(seed: int) -> list[Row]:
    source = random.Random(seed)
    return [values(source, number_of) for number_of in range(ROWS)]


def all_answers(engine: Engine) -> CompiledRule:
    """One rule with every expression; what fails is NULL."""
    items = ", ".join(f"{each.sql} AS a{number_of}" for number_of, each in enumerate(ANSWERS))
    return compile_rule(rule(projection=f"id, {items}", on_error="null"), SCHEMA, engine)


def differing(seeds: Iterable[int]) -> list[str]:
    """Where the engine says something else than Python, and failures that the checker did not foresee."""
    compiled = all_answers(Engine(zone="UTC", hash_key=b"key"))
    nodes = {output.column.name: output.node for output in compiled.outputs}
    found = []
    for seed in seeds:
        given_rows = rows(seed)
        given = [row for _, row in applied(compiled, [("+I", row) for row in given_rows])]
        for number_of, each in enumerate(ANSWERS):
            for row, out in zip(given_rows, given, strict=True):
                wanted, is_ = each.at(row), out[f"a{number_of}"]
                if wanted is Fails and not nodes[f"a{number_of}"].fails:
                    found.append(f"seed {seed}: {each.sql} fails, and is not known to")
                if is_ != (None if wanted is Fails else wanted):
                    found.append(f"seed {seed}: {each.sql}\n  row {row}\n  is {is_!r}, not {wanted!r}")
                    break
    return found
