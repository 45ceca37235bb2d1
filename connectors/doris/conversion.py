"""Changes of type: what Doris does in place, and what needs a copy of the table. Pure."""

from __future__ import annotations

from connectors.doris.types import WHOLE, SqlType


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
