"""Defaults of columns as values that rows of a lake get."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cdc.errors import ChangeRefused
from cdc.schema import TableId


def literal(default: str, kind: pa.DataType, column: str, table: TableId) -> pa.Scalar | None:
    """A default as a value of the column's type; None for one that is no constant, such as CURRENT_TIMESTAMP.

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
        return pa.array([text]).cast(kind)[0]
    except pa.ArrowException as error:
        reason = f"rows that are there cannot get the default {default!r} of {column}: {error}"
        raise ChangeRefused(reason, where=str(table), hint="`cdc resync` re-snapshots the table") from error
