"""Keys that are kept as text because the server takes no other: a change of type may spell the same value otherwise."""

from __future__ import annotations

from cdc.schema import DataType, Kind

_REALS = frozenset({Kind.FLOAT, Kind.DOUBLE})


def respelled(new: DataType, old: DataType) -> bool:
    """Whether the text of a value differs between two types that both hold it: `1.50` and `1.5000`.

    Rows that come later then do not meet the rows that are there under the same key. Pure; driver.
    """
    if new.kind is Kind.DECIMAL and old.kind is Kind.DECIMAL:
        return (new.scale or 0) != (old.scale or 0)
    if new.kind is Kind.TIME and old.kind is Kind.TIME:
        return (new.length or 0) != (old.length or 0)
    return new.kind in _REALS and old.kind != new.kind
