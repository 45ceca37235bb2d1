"""Changes of type: what StarRocks does in place, what needs a copy of the table, and rows that forbid the change. Pure.

The rows that are there are converted by StarRocks, as the log does not tell what the source's server made of them. So a
change is carried out where both come to the same values. Where they may differ, a query looks whether any row has such
a value, and the change is refused if so.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema import Column, DataType, Kind
from connectors.starrocks.types import SqlType

_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})
_BYTES = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES})
_TIMED = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_REALS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_INTEGERS = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED,
    Kind.INT_UNSIGNED, Kind.BIGINT_UNSIGNED,
})  # fmt: skip
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A condition on rows under which the source's values may differ from what this server would make of them."""

    condition: str
    reason: str


def in_place(old: SqlType, new: SqlType) -> bool:
    """Whether MODIFY COLUMN makes the change, for a value column, and keeps every value."""
    if old.name in _WHOLE and new.name in _WHOLE:
        return _WHOLE.index(new.name) > _WHOLE.index(old.name)
    if old.name == new.name == "VARCHAR":
        return (new.length or 0) > (old.length or 0)
    if old.name == new.name == "DECIMAL":
        return _whole(new) >= _whole(old) and (new.scale or 0) >= (old.scale or 0)
    if new.name == "VARCHAR":
        return old.name in (*_WHOLE, "DECIMAL", "CHAR")
    return (old.name, new.name) in {("FLOAT", "DOUBLE"), ("DATE", "DATETIME")}


def by_copy(old: SqlType, new: SqlType) -> bool:
    """Whether CAST keeps every value that the source's column can have after the change."""
    if old == new or in_place(old, new):
        return True
    if old.name in _WHOLE:
        return new.name in (*_WHOLE, "DECIMAL")
    return (old.name, new.name) in {("DECIMAL", "DECIMAL"), ("DATETIME", "DATE"), ("DOUBLE", "FLOAT")}


def doubt(column: str, new: DataType, old: Column | None) -> Doubt | None:
    """The rows that stand against a change of a column's definition; None when none do. `column` is quoted.

    `old` is the source's definition before, None when it is not known.
    """
    if old is None or old.type == new:
        return None
    before = old.type
    if (before.kind in _REALS and new.kind in _TEXTS | _BYTES) or (
        before.kind in _TIMED and new.kind in (_TEXTS | _TIMED) - {before.kind}
    ):
        return Doubt(f"{column} IS NOT NULL", f"{before} values may come out differently as {new} in the source")
    if (before.kind in _TEXTS and new.kind is Kind.JSON) or (
        {before.kind} <= _INTEGERS and new.kind in (Kind.STRING, Kind.BINARY)
    ):
        return Doubt(f"{column} IS NOT NULL", f"{before} values may come out differently as {new} in the source")
    if before.kind in _TEXTS and new.kind in _TEXTS:
        return _shorter_text(column, new, before)
    if before.kind in _BYTES and new.kind in _BYTES:
        return _other_bytes(column, new, before)
    if new.kind in _TIMED and (new.length or 0) < (before.length or 0):
        return Doubt(f"{column} IS NOT NULL", f"the source has rounded {before} to {new}, and does not log the values")
    return None


def _shorter_text(column: str, new: DataType, old: DataType) -> Doubt | None:
    if new.kind is Kind.CHAR and old.kind is not Kind.CHAR:
        return Doubt(f"{column} LIKE '% '", f"{new} takes spaces at the end away in the source")
    if new.length is not None and (old.length is None or new.length < old.length):
        return Doubt(f"char_length({column}) > {new.length}", f"values are longer than {new}")
    return None


def _other_bytes(column: str, new: DataType, old: DataType) -> Doubt | None:
    if new.kind is Kind.BINARY:
        return Doubt(f"{column} IS NOT NULL", f"{new} fills values up in the source")
    if new.length is not None and (old.length is None or new.length < old.length):
        return Doubt(f"length({column}) > {new.length}", f"values are longer than {new}")
    return None


def _whole(decimal: SqlType) -> int:
    return (decimal.length or 0) - (decimal.scale or 0)
