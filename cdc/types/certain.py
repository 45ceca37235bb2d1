"""Whether the values of existing rows are known after a change of a column's type: one list for all sinks. Pure.

The log has the statement, not what the source's server made of the rows that are there. A change is certain when every
value has one possible outcome: itself, under the new type.

| from | to | certain |
|---|---|---|
| an integer | an integer, DECIMAL, DOUBLE | in the range of the new type; not in DECIMAL of 39 digits |
| an integer that is not UNSIGNED, which may be ZEROFILL | CHAR, VARCHAR | where its text fits |
| DECIMAL | DECIMAL | where neither digits nor scale shrink; fewer when no value has more; not beyond 38 digits |
| DECIMAL | an integer | where it has no fraction and is in the range: servers round or cut |
| DECIMAL | text | where its text fits |
| DECIMAL | DOUBLE | yes |
| FLOAT | DOUBLE | yes |
| text | text | where it is not longer; into CHAR where it does not end with a space |
| bytes | bytes | where they are not longer; not into BINARY, which fills values up |
| TIMESTAMP, TIMESTAMP_LTZ | the same with as many or more digits | yes |
| DATE | TIMESTAMP | yes |
| anything else | anything else | no |
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from cdc.schema import DataType, Kind
from cdc.types.kinds import BINARIES, BLOBS, EXACT, RANGES, REALS, TEXTS, TIMESTAMPS

_TIMED = frozenset({Kind.DATE, Kind.TIME, *TIMESTAMPS})
_NEVER_KEPT = frozenset({Kind.BOOLEAN, Kind.JSON, Kind.VECTOR})
_LONGEST_DECIMAL = 38
"""The most digits of the sinks' DECIMAL; longer decimals are text, with all digits of their scale."""


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Every row that has a value."""


@dataclass(frozen=True, slots=True)
class LongerText:
    """Values of more characters."""

    characters: int


@dataclass(frozen=True, slots=True)
class LongerBytes:
    """Values of more bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class EndsWithSpace:
    """Text with a trailing space, or of more characters, where those matter."""

    characters: int | None = None


@dataclass(frozen=True, slots=True)
class OutsideOf:
    """Numbers below `low` or above `high`."""

    low: Decimal | int
    high: Decimal | int


@dataclass(frozen=True, slots=True)
class MoreDigits:
    """Decimals with more digits after or before the point; None where those do not matter."""

    scale: int | None
    integer_digits: int | None


Rows = AnyValue | LongerText | LongerBytes | EndsWithSpace | OutsideOf | MoreDigits


@dataclass(frozen=True, slots=True)
class UncertainValues:
    """The rows whose values may differ between source and sink after the change, and the reason."""

    rows: Rows
    reason: str


def uncertain(new: DataType, old: DataType) -> UncertainValues | None:
    """The rows whose values are uncertain after a change of type; None if all are certain."""
    if old == new:
        return None
    if old.kind in BINARIES and new.kind in BINARIES:
        return _of_bytes(new, old)
    if _converted(new, old):
        return UncertainValues(AnyValue(), f"{old} values may come out differently as {new} in the source")
    if old.kind in TEXTS and new.kind in TEXTS:
        return _of_text(new, old)
    if new.kind is Kind.DOUBLE or old.kind not in {*RANGES, Kind.DECIMAL}:
        return None
    if old.kind is not Kind.DECIMAL:
        return _of_numbers(new, old)
    if new.kind in TEXTS:
        return _of_decimals_as_text(new, old)
    return _of_decimals(new, old) if new.kind is Kind.DECIMAL else _of_decimals_as_integers(new, old)


_EXACT_IN_DOUBLE = 2**53


def lossy_rows(new: DataType, old: DataType) -> Rows | None:
    """The rows whose value no sink can keep when a column is widened; None if all values stay.

    `new` holds every value of `old` (`cdc.types.common.common_type`), but for large integers as DOUBLE.
    """
    if new.kind is Kind.DOUBLE and old.kind in RANGES:
        low, high = RANGES[old.kind]
        exact = low >= -_EXACT_IN_DOUBLE and high <= _EXACT_IN_DOUBLE
        return None if exact else OutsideOf(-_EXACT_IN_DOUBLE, _EXACT_IN_DOUBLE)
    zoned = new.kind is Kind.TIMESTAMP_LTZ and old.kind is not Kind.TIMESTAMP_LTZ
    long_decimal = new.kind is Kind.DECIMAL and (new.length or 10) > _LONGEST_DECIMAL
    return AnyValue() if zoned or long_decimal else None


def uncertain_text_key(new: DataType, old: DataType) -> UncertainValues | None:
    """Uncertain values that the sink stores as text, such as keys: `1.50` and `1.5000` would be two keys for one value.

    Rows that come later would not meet the rows that are there under the same key.
    """
    if new.kind is Kind.DECIMAL and old.kind is Kind.DECIMAL:
        respelled = (new.scale or 0) != (old.scale or 0)
    elif new.kind is Kind.TIME and old.kind is Kind.TIME:
        respelled = (new.length or 0) != (old.length or 0)
    else:
        respelled = new.kind in REALS and old.kind is not new.kind
    if not respelled:
        return None
    return UncertainValues(AnyValue(), f"keys are text here, and {new} values are written differently than {old}")


def respelled(new: DataType, old: DataType, stored: DataType) -> bool:
    """Whether a value, unchanged by a change of its column's type, is another one in a column of the type `stored`.

    So it is where sinks store text, or may: `1.50` and `1.5000`. A row that comes later would not meet the one there.
    """
    long_decimal = stored.kind is Kind.DECIMAL and (stored.length or 10) > _LONGEST_DECIMAL
    if old == new or not (stored.kind in {*TEXTS, *REALS, Kind.TIME} or long_decimal):
        return False
    values = None if old.kind in RANGES and new.kind in TEXTS else uncertain(new, old)
    dated = old.kind is Kind.DATE and new.kind in TIMESTAMPS
    real = stored.kind in TEXTS and new.kind in REALS and new.kind is not old.kind
    return dated or real or _scale(new) != _scale(old) or (values is not None and values.rows == AnyValue())


def _scale(number: DataType) -> int | None:
    """The digits after the point in the text of a whole or decimal number; None for other types."""
    if number.kind in RANGES:
        return 0
    return number.scale or 0 if number.kind is Kind.DECIMAL else None


def condition(column: str, rows: Rows, *, native_bytes: bool = True) -> str:
    """A SQL condition for the rows, in portable SQL. `column` is the quoted name.

    `native_bytes`: bytes are kept as such, so that their length can be asked for; else as text of some spelling.
    """
    match rows:
        case LongerText(characters=characters):
            return f"char_length({column}) > {characters}"
        case LongerBytes(length=length) if native_bytes:
            return f"length(hex({column})) > {2 * length}"
        case EndsWithSpace(characters=characters):
            longer = "" if characters is None else f"{condition(column, LongerText(characters))} OR "
            return f"{longer}{column} LIKE '% '"
        case OutsideOf(low=low, high=high):
            return f"{column} < {low} OR {column} > {high}"
        case MoreDigits(scale=scale, integer_digits=whole):
            rounded = [] if scale is None else [f"{column} <> round({column}, {scale})"]
            cut = [] if whole is None else [f"{column} >= {10**whole} OR {column} <= -{10**whole}"]
            return " OR ".join([*rounded, *cut])
        case _:
            return f"{column} IS NOT NULL"


def _converted(new: DataType, old: DataType) -> bool:
    """Whether an unchanged value would have another text or number in the sink, or the source may have rounded it."""
    kinds = frozenset((old.kind, new.kind))
    if kinds & BLOBS:  # the bytes of a text depend on its character set
        return True
    if kinds & _TIMED:
        return not _keeps_times(new, old)
    if old.kind in REALS or new.kind is Kind.FLOAT:
        return (old.kind, new.kind) != (Kind.FLOAT, Kind.DOUBLE)
    if kinds & _NEVER_KEPT:
        return True
    if new.kind is Kind.DECIMAL:
        return _becomes_text(new, old) or old.kind in TEXTS
    # An ENUM interprets a number as a member's index, not as its name; ZEROFILL pads the text of an UNSIGNED number.
    numbers = old.kind in RANGES and (new.kind is Kind.STRING or (new.kind in TEXTS and RANGES[old.kind][0] == 0))
    long_decimal = old.kind is Kind.DECIMAL and (old.length or 10) > _LONGEST_DECIMAL and new.kind in RANGES
    return numbers or long_decimal or (old.kind in TEXTS and new.kind not in TEXTS)


def _keeps_times(new: DataType, old: DataType) -> bool:
    """Whether all dates or times stay: with at least as many digits, or from a date to a TIMESTAMP."""
    widened = old.kind is new.kind and old.kind is not Kind.TIME and (new.length or 0) >= (old.length or 0)
    return widened or (old.kind, new.kind) == (Kind.DATE, Kind.TIMESTAMP)


def _becomes_text(new: DataType, old: DataType) -> bool:
    """Whether a number that sinks store as text is spelled differently as a DECIMAL."""
    if old.kind is not Kind.DECIMAL:
        return (new.length or 10) > _LONGEST_DECIMAL
    longest = max(old.length or 10, new.length or 10)
    respelled = _integer_digits(new) < _integer_digits(old) or (old.scale or 0) != (new.scale or 0)
    return longest > _LONGEST_DECIMAL and respelled


def _of_bytes(new: DataType, old: DataType) -> UncertainValues | None:
    if new.kind is Kind.BINARY:
        return UncertainValues(AnyValue(), f"{old} values may come out differently as {new}: the source fills them up")
    if _shorter(new, old):
        return UncertainValues(LongerBytes(new.length or 0), f"values are longer than {new}")
    return None


def _of_text(new: DataType, old: DataType) -> UncertainValues | None:
    if new.kind is Kind.CHAR and old.kind is not Kind.CHAR:
        shorter = new.length if _shorter(new, old) else None
        return UncertainValues(EndsWithSpace(shorter), f"{new} removes trailing spaces in the source, or is shorter")
    if _shorter(new, old):
        return UncertainValues(LongerText(new.length or 0), f"values are longer than {new}")
    return None


def _shorter(new: DataType, old: DataType) -> bool:
    return new.length is not None and (old.length is None or new.length < old.length)


def _of_numbers(new: DataType, old: DataType) -> UncertainValues | None:
    """Whole numbers in another range, or numbers as text of few characters."""
    low, high = _range(new, old.scale or 0)
    old_low, old_high = _range(old, old.scale or 0)
    if low <= old_low and old_high <= high:
        return None
    how = "longer than" if new.kind in TEXTS else "outside of"
    return UncertainValues(OutsideOf(low, high), f"values are {how} {new}")


def _range(kept_in: DataType, scale: int) -> tuple[Decimal, Decimal]:
    """The smallest and the largest number of this scale in an integer, DECIMAL or text type; 0 and -1 where none is."""
    if kept_in.kind in RANGES:
        low, high = RANGES[kept_in.kind]
        return Decimal(low), Decimal(high)
    least = EXACT.power(10, -scale)
    if kept_in.kind is Kind.DECIMAL:
        high_decimal = EXACT.power(10, _integer_digits(kept_in)) - least
        return -high_decimal, high_decimal
    digits = (kept_in.length or 0) - (scale + 1 if scale else 0)
    low_text = least - EXACT.power(10, digits - 1) if digits > 1 else Decimal(0)
    return low_text, EXACT.power(10, digits) - least if digits > 0 else Decimal(-1)


def _of_decimals_as_text(new: DataType, old: DataType) -> UncertainValues | None:
    if new.length is None:
        return None
    if (old.length or 10) > _LONGEST_DECIMAL:
        return UncertainValues(LongerText(new.length), f"values are longer than {new}")
    return _of_numbers(new, old)


def _of_decimals_as_integers(new: DataType, old: DataType) -> UncertainValues | None:
    if not old.scale:
        return _of_numbers(new, old)
    low, high = RANGES[new.kind]
    fitting = MoreDigits(0, len(str(high)) - 1) if low else AnyValue()  # of an UNSIGNED also the sign matters
    return UncertainValues(fitting, f"the source has rounded or cut {old} to {new}, and does not log the values")


def _of_decimals(new: DataType, old: DataType) -> UncertainValues | None:
    scale = new.scale or 0 if (new.scale or 0) < (old.scale or 0) else None
    integer_digits = _integer_digits(new) if _integer_digits(new) < _integer_digits(old) else None
    if scale is None and integer_digits is None:
        return None
    reason = f"the source has rounded or cut {old} to {new}, and does not log the values"
    return UncertainValues(MoreDigits(scale, integer_digits), reason)


def _integer_digits(decimal: DataType) -> int:
    """The digits before the point."""
    return (decimal.length or 10) - (decimal.scale or 0)
