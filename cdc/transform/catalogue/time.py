"""Date and time functions. TIMESTAMP_LTZ is interpreted in the session's time zone (`local-time-zone`)."""

from __future__ import annotations

import re

from cdc.schema import DataType, Kind
from cdc.transform.catalogue.function import Function, ResultRule, aliases, wall
from cdc.transform.conversions import DAY_US, failing, floor_fraction, text_literal
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, cast, literal, mistake
from cdc.transform.types import (
    BIGINT,
    DATE,
    LTZ,
    MOMENTS,
    STRING,
    TIMESTAMP,
    NullType,
    SqlType,
    is_integer,
    is_text,
    kind_of,
)
from cdc.units import OptionError, engine_zone, zone_name

NOW = "__now"
"""The hidden column with the batch's time: one for all rows, the same in a replay."""
_G, _P, _T = "Now", "Parts and arithmetic of time", "Time and text"
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_MILLIS = DataType(Kind.TIMESTAMP, 3)
_US = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_PARTS = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week", "DAY": "day", "DAYOFMONTH": "day",
    "DAYOFYEAR": "dayofyear", "DOY": "dayofyear", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
}  # fmt: skip
_LETTERS = {
    "yyyy": "%Y", "y": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "d": "%-d",
    "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "SSS": "%g",
    "SSSSSS": "%f", "a": "%p", "E": "%a", "EEE": "%a", "EEEE": "%A", "DDD": "%j",
}  # fmt: skip
_READ = {**_LETTERS, "SSSSSSSSS": "%n"}
_WRITTEN = {
    **_LETTERS,
    "D": "%-j",
    "SSSSSSSSS": "%f000",
}  # moments have six digits, and the engine's %n is wrong inside a pattern
_OFFSETS = dict.fromkeys(("Z", *("X" * digits for digits in (1, 2, 3))), "%z")
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def _now_rule(name: str, kind: SqlType) -> ResultRule:
    def rule(args: list[Typed], span: Span) -> Typed:
        now = Typed("column", DataType(Kind.TIMESTAMP_LTZ, 3), nullable=False, value=NOW, span=span)
        return cast(now, kind) if name != "UNIX_TIMESTAMP" else call(name, BIGINT, [now], span)

    return rule


def _part(name: str, unit: Typed, moment: Typed, span: Span) -> Typed:
    part = str(unit.value)
    if kind_of(moment.type) is Kind.TIME and part not in _US:
        raise mistake(moment.span, f"a TIME has no {part}", "it has HOUR, MINUTE and SECOND")
    return call("EXTRACT", BIGINT, [moment], span, value=part)


def _extract(args: list[Typed], span: Span) -> Typed:
    return _part("EXTRACT", args[0], args[1], span)


def _named_part(name: str) -> ResultRule:
    return lambda args, span: _part(name, literal(name, span), args[0], span)


def _extract_sql(args: list[str], node: Typed) -> str:
    moment, part = node.args[0], str(node.value)
    if kind_of(moment.type) is Kind.TIME:
        wrap = "" if part == "HOUR" else " % 60"
        return f"((abs({args[0]}) // {_US[part]}){wrap})"
    if part in ("DOW", "DAYOFWEEK"):
        return f"(dayofweek({wall(args[0], moment)}) + 1)"
    return f"{_PARTS[part]}({wall(args[0], moment)})"


def _add(args: list[Typed], span: Span) -> Typed:
    unit, kind = str(args[0].value), args[2].type
    if unit not in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", *_US):
        raise mistake(
            args[0].span, f"TIMESTAMPADD has no unit {unit}", "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND"
        )
    if kind == DATE and unit in _US:
        kind = DataType(Kind.TIMESTAMP, 0)
    return call("TIMESTAMPADD", kind, [args[1], cast(args[2], kind)], span, fails=True, value=unit)


def _add_sql(args: list[str], node: Typed) -> str:
    count, unit = args[0], node.value
    if unit in _US:
        step = f"to_microseconds({count} * {_US[unit]})"
    elif unit in ("DAY", "WEEK"):
        step = f"to_days(CAST({count} * {7 if unit == 'WEEK' else 1} AS INTEGER))"
    else:
        step = f"to_months(CAST({count} * { {'YEAR': 12, 'QUARTER': 3, 'MONTH': 1}[unit] } AS INTEGER))"
    return f"({args[1]} + {step})"


def _date_add(args: list[Typed], span: Span) -> Typed:
    if not (is_text(args[0].type) or kind_of(args[0].type) in MOMENTS or isinstance(args[0].type, NullType)):
        raise mistake(args[0].span, f"DATE_ADD takes a date, a timestamp or text as t, got {args[0].type}", "CAST it")
    return call("TIMESTAMPADD", DATE, [args[1], cast(args[0], DATE)], span, fails=True, value="DAY")


def _diff(args: list[Typed], span: Span) -> Typed:
    unit = str(args[0].value)
    if unit not in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", *_US):
        raise mistake(
            args[0].span, f"TIMESTAMPDIFF has no unit {unit}", "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND"
        )
    zoned = any(kind_of(arg.type) is Kind.TIMESTAMP_LTZ for arg in args[1:])
    kind = LTZ if zoned and unit in _US else TIMESTAMP
    return call("TIMESTAMPDIFF", BIGINT, [cast(arg, kind) for arg in args[1:]], span, value=unit)


def _diff_sql(args: list[str], node: Typed) -> str:
    start, end = args
    unit = node.value
    if unit in _US:
        return f"((epoch_us({end}) - epoch_us({start})) // {_US[unit]})"
    if unit in ("DAY", "WEEK"):
        return f"((epoch_us({end}) - epoch_us({start})) // {DAY_US * (7 if unit == 'WEEK' else 1)})"
    months = f"((year({end}) * 12 + month({end})) - (year({start}) * 12 + month({start})))"

    def inside(moment: str) -> str:
        return f"(day({moment}) * {DAY_US} + (((epoch_us({moment}) % {DAY_US}) + {DAY_US}) % {DAY_US}))"

    whole_months = (
        f"({months} - CASE WHEN {months} > 0 AND {inside(end)} < {inside(start)} THEN 1 "
        f"WHEN {months} < 0 AND {inside(end)} > {inside(start)} THEN -1 ELSE 0 END)"
    )
    return f"({whole_months} // { {'YEAR': 12, 'QUARTER': 3, 'MONTH': 1}[unit] })"


def _trunc(args: list[Typed], span: Span) -> Typed:
    unit = str(args[0].value).lower()
    if unit not in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
        raise mistake(
            args[0].span, f"DATE_TRUNC has no unit '{args[0].value}'", "'year', 'month', 'day', 'hour' and so on"
        )
    return call("DATE_TRUNC", args[1].type, args[1:], span, value=unit)


def _format(args: list[Typed], span: Span) -> Typed:
    fails = kind_of(args[0].type) is Kind.TIME
    return call("DATE_FORMAT", STRING, args[:1], span, fails=fails, value=engine_format(args[1]))


def _format_sql(args: list[str], node: Typed) -> str:
    pattern = text_literal(node.value)
    if kind_of(node.args[0].type) is not Kind.TIME:
        return f"strftime({wall(args[0], node.args[0])}, {pattern})"
    outside = failing("DATE_FORMAT of a TIME that is not a time of day")
    return (
        f"CASE WHEN {args[0]} BETWEEN 0 AND 86399999999 THEN strftime(make_timestamp({args[0]}), {pattern}) "
        f"WHEN {args[0]} IS NOT NULL THEN {outside} END"
    )


def _format_zone(args: list[Typed], span: Span) -> Typed:
    pattern = engine_format(args[1] if len(args) > 2 else literal(_DEFAULT, span))
    return call("DATE_FORMAT_TZ", STRING, args[:1], span, value=(pattern, checked_zone(args[-1])))


def _format_zone_sql(args: list[str], node: Typed) -> str:
    pattern, zone = node.value
    ltz = kind_of(node.args[0].type) is Kind.TIMESTAMP_LTZ
    moment = f"({args[0]} AT TIME ZONE {text_literal(zone)})" if ltz else wall(args[0], node.args[0])
    return f"strftime({moment}, {text_literal(pattern)})"


def _to_date(args: list[Typed], span: Span) -> Typed:
    if kind_of(args[0].type) in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) and len(args) == 1:
        return cast(args[0], DATE)
    _text_first("TO_DATE", args)
    if len(args) == 1:
        return cast(args[0], DATE, safe=True)
    return call("TO_DATE", DATE, args[:1], span, nullable=True, value=engine_format(args[1], reads=True))


def _text_first(name: str, args: list[Typed]) -> None:
    if not is_text(args[0].type):
        raise mistake(args[0].span, f"{name} reads text, got {args[0].type}", "CAST converts between types")


def _to_timestamp(args: list[Typed], span: Span) -> Typed:
    _text_first("TO_TIMESTAMP", args)
    if len(args) == 1:
        return cast(args[0], _MILLIS)
    return call("TO_TIMESTAMP", _MILLIS, args[:1], span, fails=True, value=engine_format(args[1], reads=True))


def _to_ltz(args: list[Typed], span: Span) -> Typed:
    kind = DataType(Kind.TIMESTAMP_LTZ, 3)
    if is_integer(args[0].type):
        digits = args[1].value if len(args) > 1 else 3
        if digits not in (0, 3) or len(args) > 2:
            raise mistake(args[-1].span, "TO_TIMESTAMP_LTZ takes seconds (0) or milliseconds (3)", "write 0 or 3")
        return call(
            "TO_TIMESTAMP_LTZ",
            kind,
            [cast(args[0], BIGINT)],
            span,
            fails=True,
            value=1_000_000 if digits == 0 else 1000,
        )
    _text_first("TO_TIMESTAMP_LTZ", args)
    for each in args[1:]:
        if each.op != "literal" or not isinstance(each.value, str):
            raise mistake(each.span, "TO_TIMESTAMP_LTZ takes text constants after the text", "write it in quotes")
    pattern = args[1] if len(args) > 1 else literal("yyyy-MM-dd HH:mm:ss.SSS", span)
    zone = checked_zone(args[2]) if len(args) > 2 else "UTC"
    return call("TO_TIMESTAMP_LTZ", kind, args[:1], span, fails=True, value=(engine_format(pattern, reads=True), zone))


def _to_ltz_sql(args: list[str], node: Typed) -> str:
    if isinstance(node.value, int):
        return f"make_timestamptz({args[0]} * {node.value})"
    pattern, zone = node.value
    return f"({_read(args[0], pattern, _MILLIS)} AT TIME ZONE {text_literal(zone)})"


def _read(text: str, pattern: str, to: DataType) -> str:
    """Return the SQL that parses text by a pattern; fraction digits beyond the type's are cut."""
    moment = f"strptime({text}, {text_literal(pattern)})"
    if "%n" in pattern:
        nanos = f"epoch_ns({moment})"
        moment = f"make_timestamp(({nanos} - ((({nanos} % 1000) + 1000) % 1000)) // 1000)"
    return floor_fraction(moment, to) if "%f" in pattern or "%n" in pattern else moment


def _from_unix(args: list[Typed], span: Span) -> Typed:
    pattern = engine_format(args[1] if len(args) > 1 else literal(_DEFAULT, span))
    return call("FROM_UNIXTIME", STRING, args[:1], span, fails=True, value=pattern)


def _from_unix_sql(args: list[str], node: Typed) -> str:
    return f"strftime(CAST(make_timestamptz({args[0]} * 1000000) AS TIMESTAMP), {text_literal(node.value)})"


def _unix(args: list[Typed], span: Span) -> Typed:
    if not args:
        return _now_rule("UNIX_TIMESTAMP", BIGINT)(args, span)
    pattern = engine_format(args[1] if len(args) > 1 else literal(_DEFAULT, span), reads=True, offsets=True)
    return call("UNIX_TIMESTAMP", BIGINT, args[:1], span, fails=True, value=pattern)


def _unix_sql(args: list[str], node: Typed) -> str:
    moment = args[0] if node.value is None else f"CAST(strptime({args[0]}, {text_literal(node.value)}) AS TIMESTAMPTZ)"
    micros = f"epoch_us({moment})"
    return f"(({micros} - ((({micros} % 1000000) + 1000000) % 1000000)) // 1000000)"


_DATE_TEXT = "Flink CDC gives text `yyyy-MM-dd`"
_NONE = "Flink CDC has no such function."
_BASE: tuple[Function, ...] = (
    Function("CURRENT_TIMESTAMP", _G, "", _now_rule("NOW", DataType(Kind.TIMESTAMP_LTZ, 3)), "",
             "The batch's moment.",
             flink="One moment for a whole batch, and the same one when it is replayed.",
             example=("CURRENT_TIMESTAMP = NOW()", "TRUE", "FALSE now and then")),
    Function("LOCALTIMESTAMP", _G, "", _now_rule("LOCALTIMESTAMP", _MILLIS), "",
             "The batch's moment in the session's zone."),
    Function("CURRENT_DATE", _G, "", _now_rule("CURRENT_DATE", DATE), "",
             "The day of the batch's moment in the session's zone."),
    Function("CURRENT_TIME", _G, "", _now_rule("CURRENT_TIME", DataType(Kind.TIME, 0)), "",
             "The time of day of the batch's moment."),
    Function("EXTRACT", _P, "unit UNIT, t CLOCK", _extract, _extract_sql,
             "A part of a date or time: YEAR, QUARTER, MONTH, WEEK (ISO), DAY, DOY, DOW (Sunday is 1), HOUR, MINUTE, "
             "SECOND; written `EXTRACT(YEAR FROM t)`."),
    *(Function(name, _P, "t CLOCK", _named_part(name), "", f"`EXTRACT({name} FROM t)`.") for name in
      ("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK", "HOUR", "MINUTE", "SECOND")),
    Function("TIMESTAMPADD", _P, "unit UNIT, n INT, t MOMENT", _add, _add_sql,
             "Moved by n units; the last day of a month stays inside the month.",
             flink="Digits after the third are cut.",
             example=("TIMESTAMPADD(HOUR, 18, TIMESTAMP '1970-01-03 17:09:27.891234')",
                      "1970-01-04T11:09:27.891234", "1970-01-04T11:09:27.891")),
    Function("TIMESTAMPDIFF", _P, "unit UNIT, from MOMENT, to MOMENT", _diff, _diff_sql,
             "How many whole units lie between two moments, cut toward zero.",
             flink="There the years and months of two dates are subtracted, whatever their days; what is over 68 "
             "years is NULL in every smaller unit, or another number where it is negative; digits after the third "
             "are cut first, and a day between two instants has 24 hours whatever the zone's clock does.",
             example=("TIMESTAMPDIFF(SECOND, TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP '2000-01-01 00:00:00')",
                      "3155673600", "NULL")),
    Function("DATE_ADD", _P, "t ANY, days INT", _date_add, "",
             "The date so many days later.", flink=_DATE_TEXT + ".",
             example=("DATE_ADD(DATE '2024-02-28', 2)", "2024-03-01 (a DATE)", "'2024-03-01' (text)")),
    Function("DATE_TRUNC", _P, "unit CONSTANT, t MOMENT", _trunc,
             lambda args, node: f"date_trunc({text_literal(node.value)}, {args[0]})",
             "The start of the unit that it lies in.",
             flink=_NONE, example=("DATE_TRUNC('month', DATE '2024-05-06')", "2024-05-01", "an error")),
    Function("DATE_FORMAT", _T, "t CLOCK, pattern CONSTANT", _format, _format_sql,
             "As text, by a Java pattern such as `yyyy-MM-dd HH:mm:ss.SSS`.",
             flink="`S` is a number of milliseconds there, whatever the count of letters.",
             example=("DATE_FORMAT(TIMESTAMP '2024-01-01 00:00:00.123456', 'SSSSSS')", "123456", "000123")),
    Function("DATE_FORMAT_TZ", _T, "t MOMENT, pattern_or_zone CONSTANT, [zone CONSTANT]", _format_zone,
             _format_zone_sql,
             "As text in a time zone, which matters for TIMESTAMP_LTZ."),
    Function("TO_DATE", _T, "s ANY, [pattern CONSTANT]", _to_date,
             lambda args, node: f"CAST(try_strptime({args[0]}, {text_literal(node.value)}) AS DATE)",
             "Text to a date, NULL when it is none; a timestamp's date in the session's zone.", nulls="always",
             flink="A TIMESTAMP_LTZ gives the date in UTC, whatever the session's zone; text with a time gives NULL.",
             example=("TO_DATE('2024-02-03 04:05:06')", "2024-02-03", "NULL")),
    Function("TO_TIMESTAMP", _T, "s ANY, [pattern CONSTANT]", _to_timestamp,
             lambda args, node: _read(args[0], node.value, _MILLIS),
             "Text to a TIMESTAMP(3); other text fails.",
             fails=True, flink="What follows the pattern is left out there, and days and months beyond the last "
             "count on in the next year; `UNIX_TIMESTAMP` of text likewise.",
             example=("TO_TIMESTAMP('2025-01-05 19:59:59.5')", "2025-01-05T19:59:59.500000", "2025-01-05T19:59:59")),
    Function("TO_TIMESTAMP_LTZ", _T, "s ANY, [pattern_or_digits ANY], [zone CONSTANT]", _to_ltz, _to_ltz_sql,
             "Seconds (digits 0), milliseconds (digits 3) or text in a zone (UTC unless given) to an instant.",
             fails=True),
    Function("FROM_UNIXTIME", _T, "seconds INT, [pattern CONSTANT]", _from_unix,
             _from_unix_sql,
             "Seconds since 1970 as text in the session's zone."),
    Function("UNIX_TIMESTAMP", _T, "[s TEXT], [pattern CONSTANT]", _unix, _unix_sql,
             "Seconds since 1970: of now, or of text in the session's zone or with an offset (`X`); other text fails.",
             fails=True,
             flink="Text that is not a time gives -9223372036854775808.",
             example=("UNIX_TIMESTAMP('x')", "an error", "-9223372036854775808")),
)  # fmt: skip
FUNCTIONS: tuple[Function, ...] = (
    *_BASE,
    *aliases(_BASE, {"NOW": "CURRENT_TIMESTAMP", "LOCALTIME": "CURRENT_TIME", "TIMESTAMP_DIFF": "TIMESTAMPDIFF"}),
)


def engine_format(node: Typed, *, reads: bool = False, offsets: bool = False) -> str:
    """Convert a constant Java pattern to the engine's, for formatting or (`reads`) parsing, with `offsets` like +08:00.

    Raises ExpressionError for letters that the engine does not support.
    """
    known = {**(_READ if reads else _WRITTEN), **(_OFFSETS if offsets else {})}
    pattern, result, position = str(node.value), "", 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            raise mistake(node.span, f"the pattern '{pattern}' has a quote that is never closed", "double it")
        piece = match[0]
        if match[2]:
            if piece not in known:
                hint = f"known are {', '.join(sorted(known))}; put text in quotes"
                raise mistake(node.span, f"`{piece}` in the pattern '{pattern}' is not supported", hint)
            result += known[piece]
        else:
            text = (match[1] or "").replace("''", "'") or "'" if piece.startswith("'") else piece
            result += text.replace("%", "%%")
        position = match.end()
    return result


def checked_zone(node: Typed) -> str:
    """Return the engine's name of a time zone. Raises ExpressionError when there is no such zone."""
    try:
        return engine_zone(zone_name(str(node.value)))
    except OptionError as error:
        raise mistake(node.span, str(error), error.hint) from error
