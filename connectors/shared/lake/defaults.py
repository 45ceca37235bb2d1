"""Defaults of columns as values that rows of a lake get."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import ChangeRefused
from cdc.schema import Column, Kind, TableId


def stored_default(column: Column) -> str | None:
    """The default of a column in the spelling of its rows: a TIME has six digits of a second, or none."""
    text = column.default
    if text is None or column.type.kind is not Kind.TIME:
        return text
    return re.sub(r"\.(\d+)$", lambda found: f".{found[1]:0<6}" if found[1].strip("0") else "", text)


def literal(default: str, kind: pa.DataType, column: str, table: TableId) -> pa.Scalar | None:
    """A default as a value of the column's type; None for one that is no constant, such as CURRENT_TIMESTAMP.

    A moment is in UTC.
    Raises ChangeRefused for a constant that the type does not have.
    """
    text: Any = default
    if default[:2].lower() == "b'" and default.endswith("'"):
        text = str(int(default[2:-1] or "0", 2))
    if default.upper().startswith(("CURRENT_", "NOW(", "LOCALTIME", "(", "UUID(")):
        return None
    if pa.types.is_boolean(kind):
        text = {"1": "true", "0": "false"}.get(str(text), text)
    if pa.types.is_binary(kind):
        text = bytes.fromhex(default[2:]) if default[:2].lower() == "0x" else default.encode()
        return pa.scalar(text, kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return pc.assume_timezone(pa.array([text]).cast(pa.timestamp(kind.unit)), kind.tz)[0]
        return pa.array([text]).cast(kind)[0]
    except pa.ArrowException as error:
        reason = f"rows that are there cannot get the default {default!r} of {column}: {error}"
        raise ChangeRefused(reason, where=str(table), hint="`cdc resync` re-snapshots the table") from error
