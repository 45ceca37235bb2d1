"""Rows that stand against a change of a column's type.

The log has the statement, not what the source's server made of the rows that are there: those are converted by the
sink's server, or stay as they are. So a change is carried out where both come to the same values. Where they may
differ, the sink looks whether any row has such a value, and refuses the change if so. Pure; driver, once per change.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema import DataType, Kind

_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})
_BYTES = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES})
_TIMED = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_REALS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_RANGES = {
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63), 2**63 - 1),
    Kind.TINYINT_UNSIGNED: (0, 2**8 - 1),
    Kind.SMALLINT_UNSIGNED: (0, 2**16 - 1),
    Kind.INT_UNSIGNED: (0, 2**32 - 1),
    Kind.BIGINT_UNSIGNED: (0, 2**64 - 1),
}
_LONGEST_DECIMAL = 38
"""Digits of the servers' DECIMAL; more are kept as text, with all digits of the scale."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A condition on rows, in SQL, under which the source's values may differ from the sink's, and why they may."""

    condition: str
    reason: str


def doubt(column: str, new: DataType, old: DataType | None, *, native_bytes: bool) -> Doubt | None:
    """The rows that stand against a change of a column's type; None when none do.

    Args:
        column: the column's name, quoted.
        new, old: the source's types; `old` is None when it is not known, and then nothing is doubted.
        native_bytes: BINARY and its kin are kept as bytes, so that their length can be asked for; else as text.
    """
    if old is None or old == new:
        return None
    if native_bytes and old.kind in _BYTES and new.kind in _BYTES:
        return _other_bytes(column, new, old)
    if _converted_otherwise(old, new):
        return Doubt(f"{column} IS NOT NULL", f"{old} values may come out differently as {new} in the source")
    if old.kind in _TEXTS and new.kind in _TEXTS:
        return _other_text(column, new, old)
    if old.kind in _RANGES and new.kind in _RANGES:
        return _narrower(column, new, old)
    if new.kind is old.kind is Kind.DECIMAL:
        return _fewer_digits(column, new, old)
    return None


def _converted_otherwise(old: DataType, new: DataType) -> bool:
    """Whether the sink's text or number for an unchanged value would be another one, or the source may have rounded."""
    binary = _BYTES | {Kind.GEOMETRY}
    if old.kind in binary or new.kind in binary:
        # The bytes of a text depend on its character set; and BINARY(n) fills values up.
        shorter = (new.length or 1 << 32) < (old.length or 1 << 32)
        return (old.kind in binary) != (new.kind in binary) or new.kind is Kind.BINARY or shorter
    if old.kind in _TIMED or new.kind in _TIMED:
        widened = old.kind is new.kind and old.kind is not Kind.TIME and (new.length or 0) >= (old.length or 0)
        return not widened and (old.kind, new.kind) != (Kind.DATE, Kind.TIMESTAMP)
    if old.kind in _REALS or new.kind is Kind.FLOAT:
        return (old.kind, new.kind) != (Kind.FLOAT, Kind.DOUBLE)
    if old.kind is Kind.DECIMAL and new.kind is Kind.DECIMAL:
        longest = max(old.length or 10, new.length or 10)
        return longest > _LONGEST_DECIMAL and (_whole(new) < _whole(old) or (old.scale or 0) != (new.scale or 0))
    if new.kind is Kind.JSON or new.kind is Kind.BOOLEAN or Kind.VECTOR in (old.kind, new.kind):
        return True
    # An ENUM takes a number for a member's place, not for its name.
    return (old.kind in _RANGES and new.kind is Kind.STRING) or (old.kind in _TEXTS and new.kind not in _TEXTS)


def _other_text(column: str, new: DataType, old: DataType) -> Doubt | None:
    if new.kind is Kind.CHAR and old.kind is not Kind.CHAR:
        return Doubt(f"{column} LIKE '% '", f"{new} takes spaces at the end away in the source")
    if _shorter(new, old):
        return Doubt(f"char_length({column}) > {new.length}", f"values are longer than {new}")
    return None


def _other_bytes(column: str, new: DataType, old: DataType) -> Doubt | None:
    if new.kind is Kind.BINARY:
        return Doubt(f"{column} IS NOT NULL", f"{new} fills values up in the source")
    if _shorter(new, old):
        return Doubt(f"length(hex({column})) > {2 * (new.length or 0)}", f"values are longer than {new}")
    return None


def _shorter(new: DataType, old: DataType) -> bool:
    return new.length is not None and (old.length is None or new.length < old.length)


def _narrower(column: str, new: DataType, old: DataType) -> Doubt | None:
    low, high = _RANGES[new.kind]
    old_low, old_high = _RANGES[old.kind]
    if low <= old_low and old_high <= high:
        return None
    return Doubt(f"{column} < {low} OR {column} > {high}", f"values are outside of {new}")


def _fewer_digits(column: str, new: DataType, old: DataType) -> Doubt | None:
    scale, whole = new.scale or 0, _whole(new)
    conditions = []
    if scale < (old.scale or 0):
        conditions.append(f"{column} <> round({column}, {scale})")
    if whole < _whole(old):
        conditions.append(f"{column} >= {10**whole} OR {column} <= -{10**whole}")
    if not conditions:
        return None
    return Doubt(" OR ".join(conditions), f"the source has rounded or cut {old} to {new}, and does not log the values")


def _whole(decimal: DataType) -> int:
    """Digits before the point."""
    return (decimal.length or 10) - (decimal.scale or 0)
