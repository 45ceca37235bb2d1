"""Changes of type: what StarRocks does in place, and what needs a copy of the table. Pure."""

from __future__ import annotations

from connectors.starrocks.types import SqlType

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT")


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


def _whole(decimal: SqlType) -> int:
    return (decimal.length or 0) - (decimal.scale or 0)
