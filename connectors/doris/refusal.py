"""Changes of type: what Doris does in place, what needs a copy of the table, and rows that forbid the change. Pure.

The rows that are there are converted by Doris, as the log does not tell what the source's server made of them. So a
change is carried out where both come to the same values. Where they may differ, a query looks whether any row has such
a value, and the change is refused if so.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema import DataType, Kind
from connectors.doris.types import BINARY, WHOLE, SqlType

_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})
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


@dataclass(frozen=True, slots=True)
class Doubt:
    """A condition on rows under which the source's values may differ from what this server would make of them."""

    condition: str
    reason: str


def in_place(old: SqlType, new: SqlType) -> bool:
    """Whether MODIFY COLUMN makes the change and keeps every value (ColumnType's matrix, SchemaChangeHandler)."""
    if old.name in WHOLE and new.name in WHOLE:
        return WHOLE.index(new.name) > WHOLE.index(old.name)
    if old.name in WHOLE:
        return new.name == "DOUBLE" or new.is_text
    if old.name in ("CHAR", "VARCHAR"):
        return new.is_text and new.room > old.room
    if old.name == "DECIMAL":
        wider = new.whole_digits >= old.whole_digits and (new.scale or 0) >= (old.scale or 0)
        return (new.name == "DECIMAL" and wider) or new.is_text
    if old.name == new.name == "DATETIME":
        return (new.length or 0) > (old.length or 0)
    return (old.name, new.name) in {("FLOAT", "DOUBLE"), ("DATE", "DATETIME"), ("JSON", "STRING")}


def by_copy(old: SqlType, new: SqlType) -> bool:
    """Whether CAST keeps every value that the source's column can have after the change."""
    if old == new or in_place(old, new):
        return True
    if old.name in (*WHOLE, "BOOLEAN"):
        return new.name in (*WHOLE, "DECIMAL")
    return old.is_text and new.is_text


def doubt(column: str, new: DataType, old: DataType | None) -> Doubt | None:
    """The rows that stand against a change of a column's definition; None when none do. `column` is quoted.

    `old` is the source's type before, None when it is not known.
    """
    if old is None or old == new:
        return None
    if _spelled_differently(old, new):
        return Doubt(f"{column} IS NOT NULL", f"{old} values may come out differently as {new} in the source")
    if old.kind in _TEXTS and new.kind in _TEXTS:
        return _shorter_text(column, new, old)
    if old.kind in _RANGES and new.kind in _RANGES:
        return _narrower(column, new, old)
    if new.kind is old.kind is Kind.DECIMAL and (new.scale or 0) < (old.scale or 0):
        rounded = f"{column} <> round({column}, {new.scale or 0})"
        return Doubt(rounded, f"the source has rounded {old} to {new}, and does not log the values")
    return None


def _spelled_differently(old: DataType, new: DataType) -> bool:
    """Whether the sink's text or number for an unchanged value would be another one, or the source may have rounded."""
    if old.kind in BINARY or new.kind in BINARY:
        # The bytes of a text depend on its character set; and BINARY(n) fills values up.
        shorter = (new.length or 1 << 32) < (old.length or 1 << 32)
        return (old.kind in BINARY) != (new.kind in BINARY) or new.kind is Kind.BINARY or shorter
    if old.kind in _TIMED or new.kind in _TIMED:
        widened = old.kind is new.kind and old.kind is not Kind.TIME and (new.length or 0) >= (old.length or 0)
        return not widened and (old.kind, new.kind) != (Kind.DATE, Kind.TIMESTAMP)
    if old.kind in _REALS or new.kind is Kind.FLOAT:
        return (old.kind, new.kind) != (Kind.FLOAT, Kind.DOUBLE)
    if old.kind is Kind.DECIMAL and new.kind is Kind.DECIMAL:
        # Beyond 38 digits it is text, with all digits of its scale.
        return max(old.length or 10, new.length or 10) > 38 and (old.scale or 0) != (new.scale or 0)
    if new.kind is Kind.JSON or new.kind is Kind.BOOLEAN or Kind.VECTOR in (old.kind, new.kind):
        return True
    # An ENUM takes a number for a member's place, not for its name.
    return (old.kind in _RANGES and new.kind is Kind.STRING) or (old.kind in _TEXTS and new.kind not in _TEXTS)


def _shorter_text(column: str, new: DataType, old: DataType) -> Doubt | None:
    if new.kind is Kind.CHAR and old.kind is not Kind.CHAR:
        return Doubt(f"{column} LIKE '% '", f"{new} takes spaces at the end away in the source")
    if new.length is not None and (old.length is None or new.length < old.length):
        return Doubt(f"char_length({column}) > {new.length}", f"values are longer than {new}")
    return None


def _narrower(column: str, new: DataType, old: DataType) -> Doubt | None:
    low, high = _RANGES[new.kind]
    old_low, old_high = _RANGES[old.kind]
    if low <= old_low and old_high <= high:
        return None
    return Doubt(f"{column} < {low} OR {column} > {high}", f"values are outside of {new}")
