"""Constant intervals: `INTERVAL '1' DAY`, `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL '1-2' YEAR TO MONTH`."""

from __future__ import annotations

import re

from sqlglot import exp

from cdc.transform.syntax import Interval, Mistake, Span

_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROSECONDS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_MOST_DAYS = 10_000 * 366


def interval(tree: exp.Expression, span: Span) -> Interval | Mistake:
    """Return the interval, or the mistake in it."""
    value, unit = tree.args.get("this"), tree.args.get("unit")
    if not isinstance(value, exp.Literal):
        return Mistake(span, "an INTERVAL is a constant", "for a column, write TIMESTAMPADD(DAY, n, t)")
    text = str(value.this).strip()
    if isinstance(unit, exp.IntervalSpan):
        return _range(text, unit.this.name.upper(), unit.args["expression"].name.upper(), span)
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    number = re.fullmatch(r"([+-]?)(\d{1,12})(?:\.(\d{1,6}))?", text)
    if name not in _MONTHS and name not in _DAYS and name not in _MICROSECONDS:
        units = ", ".join([*_MONTHS, *_DAYS, *_MICROSECONDS])
        return Mistake(
            span, f"INTERVAL needs a unit, got `{name}`" if name else "INTERVAL needs a unit", f"one of {units}"
        )
    if number is None or (number[3] and name != "SECOND"):
        return Mistake(span, f"INTERVAL '{text}' {name} is not a whole number", f"such as INTERVAL '1' {name}")
    sign = -1 if number[1] == "-" else 1
    if name in _MONTHS:
        return _checked(sign * int(number[2]) * _MONTHS[name], 0, 0, span)
    if name in _DAYS:
        return _checked(0, sign * int(number[2]) * _DAYS[name], 0, span)
    fraction = int((number[3] or "").ljust(6, "0"))
    return _checked(0, 0, sign * (int(number[2]) * _MICROSECONDS[name] + fraction), span)


def _range(text: str, first: str, last: str, span: Span) -> Interval | Mistake:
    if (first, last) == ("YEAR", "MONTH"):
        match = re.fullmatch(r"([+-]?)(\d{1,5})-(\d{1,2})", text)
        if match is None or int(match[3]) > 11:
            return Mistake(span, f"INTERVAL '{text}' YEAR TO MONTH cannot be read", "such as '1-2'")
        return _checked((-1 if match[1] == "-" else 1) * (int(match[2]) * 12 + int(match[3])), 0, 0, span)
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        return Mistake(span, f"INTERVAL {first} TO {last} does not exist", "such as DAY TO SECOND or HOUR TO MINUTE")
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    pattern = r"([+-]?)" + "".join(
        (r"[ :]" if position else "") + r"(\d{1,9})" for position in range(len(fields))
    ) + (r"(?:\.(\d{1,6}))?" if last == "SECOND" else "")  # fmt: skip
    match = re.fullmatch(pattern, text)
    if match is None:
        example = {"DAY": "1 ", "HOUR": ""}.get(first, "") + ":".join(["02"] * len([f for f in fields if f != "DAY"]))
        return Mistake(span, f"INTERVAL '{text}' {first} TO {last} cannot be read", f"such as '{example}'")
    sign = -1 if match[1] == "-" else 1
    days = int(match[2]) if first == "DAY" else 0
    total = sum(int(match[number + 2]) * _MICROSECONDS.get(name, 0) for number, name in enumerate(fields))
    if last == "SECOND" and match[len(fields) + 2]:
        total += int(match[len(fields) + 2].ljust(6, "0"))
    return _checked(0, sign * days, sign * total, span)


def _checked(months: int, days: int, microseconds: int, span: Span) -> Interval | Mistake:
    if abs(months) > 120_000 or abs(days) + abs(microseconds) // 86_400_000_000 > _MOST_DAYS:
        return Mistake(span, "the INTERVAL is longer than 10,000 years", "write a shorter one")
    return Interval(months, days, microseconds, span)
