"""Values of a column whose type changes, as MySQL's ALTER converts them. Pure text, nothing is executed here.

Where the log alone leaves the values of existing rows uncertain, DuckDB comes to those that the server made, but for:

| from | to | why |
|---|---|---|
| FLOAT, DOUBLE | text, bytes | `1e30` here is `1e+30` there |
| text | JSON | the server sorts keys and sets spaces anew |
| integers | STRING, BINARY | an ENUM takes the number for a member's place, a BIT for its bits |
| STRING, BINARY | numbers | the same the other way |
| TIMESTAMP_LTZ | anything else | the server converts it in the time zone of the session that ran the ALTER |
| anything else | TIMESTAMP_LTZ | the same the other way |
| other numbers | DECIMAL beyond 38 digits | it is text here, with all digits of its scale |
| VARBINARY | fewer bytes | the server refuses or cuts, by its sql_mode |
"""

from __future__ import annotations

from cdc.schema import DataType, Kind
from connectors.duckdb.types import BLOB, INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, duckdb_type

_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})
_BYTES = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES})
_TIMED = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_REALS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_INTEGERS = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED,
    Kind.INT_UNSIGNED, Kind.BIGINT_UNSIGNED,
})  # fmt: skip
_NUMBERS = _INTEGERS | _REALS | {Kind.DECIMAL}
_UNSURE = (
    (_REALS, _TEXTS | _BYTES),
    (_TEXTS, frozenset({Kind.JSON})),
    (_INTEGERS, frozenset({Kind.STRING, Kind.BINARY})),
    (frozenset({Kind.STRING, Kind.BINARY}), _NUMBERS),
)


def rewrites(new: DataType, old: DataType | None) -> bool:
    """Whether values change although the DuckDB type may stay: digits, characters or bytes go or come."""
    if old is None:
        return False
    fewer = _length(new) < _length(old)
    if new.kind is Kind.DECIMAL:
        return _other_decimal_text(old, new)
    if new.kind in _TIMED:
        return old.kind is new.kind and (new.length or 0) < (old.length or 0)
    if new.kind in _TEXTS and old.kind in _TEXTS:
        return fewer or (new.kind is Kind.CHAR and old.kind is not Kind.CHAR)
    if new.kind in _BYTES and old.kind in _BYTES:
        return fewer or (new.kind is Kind.BINARY and new != old)
    return False


def converts(actual: str, new: DataType, old: DataType | None) -> bool:
    """Whether `conversion` makes of a value of type `actual` what the source's server made of it."""
    if (actual == TIMESTAMPTZ) != (duckdb_type(new) == TIMESTAMPTZ):
        return False
    return old is None or not _unsure(old, new)


def conversion(expression: str, actual: str, new: DataType, old: DataType | None) -> str:
    """SQL that turns a value of type `actual` into one of the source's type `new`.

    `old` is the source's type before, when known.
    """
    sql = duckdb_type(new)
    if actual == sql:
        return _rewritten(expression, sql, new, old)
    if sql == BLOB:
        encoded = f"encode(CAST({expression} AS VARCHAR))"
        return _sized(encoded, new) if new.kind in _BYTES else encoded
    if actual == BLOB:
        return f"CAST(decode({expression}) AS {sql})"
    if sql == TEXT and old is not None and old.kind in _TIMED:
        return _timed_text(expression, old)
    if sql == TEXT and actual.startswith("DECIMAL"):
        return _decimal_text(expression)
    if actual == TIMESTAMP and sql == "DATE":
        return _day(expression)
    return f"CAST({expression} AS {sql})"


def plain_text(expression: str, kind: DataType) -> str | None:
    """A value as the text that `cdc.flow.casts` makes of it; None where there is no expression for it.

    Doubles that Arrow writes with an exponent fail.
    """
    text = f"CAST({expression} AS VARCHAR)"
    match kind.kind:
        case Kind.DECIMAL:
            return _decimal_text(expression)
        case Kind.DOUBLE:
            size, whole = f"abs({expression})", f"regexp_replace({text}, '\\.0$', '')"
            reason = "error('DOUBLE values below 0.0001 or from 1e10 on have more than one text')"
            return f"CASE WHEN {size} = 0 OR ({size} >= 0.0001 AND {size} < 1e10) THEN {whole} ELSE {reason} END"
        case Kind.TIMESTAMP:
            return _without_zeros(f"strftime({expression}, '%Y-%m-%dT%H:%M:%S.%f')")
        case Kind.TIMESTAMP_LTZ:
            moment = f"strftime(timezone('UTC', {expression}), '%Y-%m-%dT%H:%M:%S.%f')"
            return f"{_without_zeros(moment)} || 'Z'"
        case Kind.TIME:
            return _without_zeros(text)
        case Kind.BINARY | Kind.VARBINARY | Kind.BYTES | Kind.GEOMETRY:
            return f"base64({expression})"
        case Kind.FLOAT | Kind.VECTOR:
            return None  # the digits are not the same
        case _:
            return text


def _decimal_text(expression: str) -> str:
    """With the zero before the point that DuckDB leaves out of a DECIMAL(30, 30)."""
    return f"regexp_replace(CAST({expression} AS VARCHAR), '^(-?)\\.', '\\10.')"


def _without_zeros(text: str) -> str:
    """A time without the zeros at the end of its fraction."""
    return f"regexp_replace(regexp_replace({text}, '(\\.\\d*[1-9])0+$', '\\1'), '\\.0+$', '')"


def _unsure(old: DataType, new: DataType) -> bool:
    if old.kind in _BYTES and new.kind is Kind.VARBINARY and _length(new) < _length(old):
        return True
    return _other_decimal_text(old, new) or any(old.kind in before and new.kind in after for before, after in _UNSURE)


def _other_decimal_text(old: DataType, new: DataType) -> bool:
    """Whether numbers that are text here, or become it, get other digits: with the scale, or cut to fewer digits."""
    if new.kind is not Kind.DECIMAL or duckdb_type(new) != TEXT or old == new:
        return False
    return old.kind is not Kind.DECIMAL or old.scale != new.scale or _length(new) < _length(old)


def _length(data_type: DataType) -> float:
    return float("inf") if data_type.length is None else data_type.length


def _timed_text(expression: str, old: DataType) -> str:
    """With exactly the fractional digits of the type, zeros included."""
    digits = old.length or 0
    if old.kind is not Kind.TIME:
        return f"left(strftime({expression}, '%Y-%m-%d %H:%M:%S.%f'), {20 + digits if digits else 19})"
    text = f"CAST({expression} AS VARCHAR)"
    if not digits:
        return text
    pointed = f"CASE WHEN contains({text}, '.') THEN {text} ELSE {text} || '.' END"
    return f"rpad({pointed}, CAST(instr({text} || '.', '.') + {digits} AS INTEGER), '0')"


def _rewritten(expression: str, sql: str, new: DataType, old: DataType | None) -> str:
    if not rewrites(new, old):
        return expression
    if new.kind in _TIMED:
        return _rounded(expression, sql, new)
    if new.kind in _BYTES:
        return _sized(expression, new)
    text = expression if new.length is None else f"left({expression}, {new.length})"
    return f"rtrim({text}, ' ')" if new.kind is Kind.CHAR else text


def _sized(expression: str, new: DataType) -> str:
    """Bytes of the type's length: BINARY is filled up with zeros, and what is longer fails."""
    length = f"octet_length({expression})"
    too_long = f"{length} > {new.length}" if new.length is not None else "false"
    padded = f"{expression} || repeat('\\x00'::BLOB, {new.length} - {length})"
    value = padded if new.kind is Kind.BINARY else expression
    return f"CASE WHEN {too_long} THEN error('a value is longer than {new}') ELSE {value} END"


def _day(expression: str) -> str:
    """MySQL rounds to the next day from its last half second on, MariaDB does not: such a value fails."""
    day, rounded = f"CAST({expression} AS DATE)", f"CAST({expression} + INTERVAL 500 MILLISECONDS AS DATE)"
    return (
        f"CASE WHEN {day} <> {rounded} THEN error('the last half second of a day may be the next one') ELSE {day} END"
    )


def _rounded(expression: str, sql: str, new: DataType) -> str:
    step = 10 ** (6 - (new.length or 0))
    if sql == INTERVAL:
        return f"to_microseconds(CAST(round(epoch_us({expression}) / {step}) * {step} AS BIGINT))"
    moved = f"(epoch_us({expression}) + {step // 2})"
    whole = f"{moved} - (({moved} % {step}) + {step}) % {step}"
    return f"make_timestamptz({whole})" if sql == TIMESTAMPTZ else f"make_timestamp({whole})"
