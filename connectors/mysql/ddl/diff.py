"""From an old to a new definition: the schema changes that bring a sink there. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.evolution.diff import Hints, Origins, Table
from cdc.evolution.diff import diff as schema_diff
from cdc.schema import SchemaChange
from connectors.mysql.ddl.defaults import fill_text
from connectors.mysql.table import MySqlTable, table_schema

__all__ = ["Origins", "diff"]


def diff(
    old: MySqlTable | None,
    new: MySqlTable | None,
    *,
    origins: Origins | None = None,
    fills: Mapping[str, str | None] | None = None,
    tinyint1_as_boolean: bool = False,
) -> list[SchemaChange]:
    """The changes that lead from `old` to `new`, in the order and with the exceptions of `cdc.evolution.diff`.

    An added NOT NULL column without default carries MySQL's implicit one (0, empty text, first ENUM member), because
    that is what rows already there get.

    Args:
        origins: which old column each new one comes from; None matches columns by name.
        fills: what rows already there get for added columns, by name, where it is not what `fill_text` says.

    Raises ValueError for a column type that this tool does not know.
    """
    before, after = _table(old, tinyint1_as_boolean), _table(new, tinyint1_as_boolean)
    values = {} if new is None else {column.name: fill_text(column) for column in new.columns}
    return schema_diff(before, after, Hints(origins, values | dict(fills or {})))


def _table(table: MySqlTable | None, tinyint1_as_boolean: bool) -> Table | None:
    if table is None:
        return None
    return Table(table.id, table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean))
