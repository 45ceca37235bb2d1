"""Names of tables as statements write them, and as the server knows them. Pure."""

from __future__ import annotations

from collections.abc import Collection

from cdc.schema import TableId


def known_name(table: TableId, lower_case_table_names: int, known: Collection[TableId]) -> TableId:
    """The name by which the server knows a table that a statement writes so; `known` are those it may be."""
    if lower_case_table_names == 1:
        return TableId(table.database.lower(), table.table.lower())
    if lower_case_table_names == 2 and table not in known:
        folded = str(table).lower()
        return next((name for name in known if str(name).lower() == folded), table)
    return table
