"""The WHERE that finds rows by their keys, from Arrow values of the key's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.mysql.snapshot.plan.bounds import BINARY, INTEGERS, TEXT, literals_of, names_of, split_columns
from connectors.mysql.table import MySqlTable

_MOMENTS = frozenset({"date", "datetime", "timestamp"})
_LOOKED_UP = INTEGERS | BINARY | TEXT | _MOMENTS | {"decimal"}


def can_look_up(table: MySqlTable) -> bool:
    """Whether the table has a primary key, and all of its columns can be compared with Arrow values."""
    columns = split_columns(table.primary_key, table)
    return bool(columns) and all(column.type in _LOOKED_UP for column in columns)


def with_keys(table: MySqlTable, collations: Sequence[str | None], keys: pa.RecordBatch) -> str:
    """The condition that the primary key is one of these; at least one. Raises SourceError as `literal`."""
    columns = split_columns(table.primary_key, table)
    values = [_plain(keys.column(index)) for index in range(len(columns))]
    rows = [", ".join(literals_of(columns, collations, row)) for row in zip(*values, strict=True)]
    if len(columns) == 1:
        return f"{names_of(columns)} IN ({', '.join(rows)})"
    return f"({names_of(columns)}) IN ({', '.join(f'({row})' for row in rows)})"


def _plain(values: pa.Array) -> list[Any]:
    """The value in the form of bounds: dates and times as text."""
    if pa.types.is_temporal(values.type):
        return [str(text).removesuffix("Z") for text in pc.cast(values, pa.string()).to_pylist()]
    return list(values.to_pylist())
