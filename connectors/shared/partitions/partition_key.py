"""The option `partition.key` of lake sinks: `db.t:day,region;db.u:bucket[16](id)`, as Flink CDC writes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdc.schema import TableId

_FIELDS = re.compile(r",(?![^(\[]*[)\]])")
"""A comma that stands in no brackets."""


def partition_keys(text: str) -> Mapping[TableId, tuple[str, ...]]:
    """The partition fields of each table, in order. Empty text is no table.

    Raises ValueError that says what is wrong.
    """
    found: dict[TableId, tuple[str, ...]] = {}
    for part in filter(None, (item.strip() for item in text.split(";"))):
        name, colon, fields = part.partition(":")
        table = TableId.parse(name.strip())
        names = tuple(field.strip() for field in _FIELDS.split(fields))
        if not colon or not table.database or not table.table or not all(names):
            raise ValueError(f"{part!r} is not `database.table:column,column`")
        if table in found:
            raise ValueError(f"{table} is named twice")
        if len({field.casefold() for field in names}) < len(names):
            raise ValueError(f"{table} has a partition field twice")
        found[table] = names
    return found
