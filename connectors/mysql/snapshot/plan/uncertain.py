"""Tables that are re-snapshotted though nobody asked for it: announced, and not beyond a size."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.errors import UnsupportedChange
from cdc.schema import TableId
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import query
from connectors.mysql.snapshot.chunk import Begin

_ROWS = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"

_ELSE = {True: "or schema-change.uncertain: stop to leave its rows to the sink, ", False: ""}


def announced(
    begun: Mapping[TableId, Begin], why: Mapping[TableId, str], session: MySqlConnection, most_rows: int
) -> list[str]:
    """A sentence for each table that begins anew. Stream reader process, when a batch is planned.

    Raises UnsupportedChange when the server takes a table for larger than `most_rows`, SourceUnavailable.
    """
    said = []
    for table, begin in begun.items():
        rows = _estimated_rows(session, table)
        if rows > most_rows:
            raise UnsupportedChange(
                f"it has to be re-snapshotted, as {why[table]}, and has about {rows:,} rows",
                where=str(table),
                hint=f"set schema-change.copy-max-rows above {rows} to copy it, {_ELSE[begin.why == 'uncertain']}"
                "or leave it out with tables.exclude",
            )
        said.append(f"{table} is re-snapshotted, about {rows:,} rows: {why[table]}")
    return said


def _estimated_rows(session: MySqlConnection, table: TableId) -> int:
    found = query(session, _ROWS, (table.database, table.table))
    return int(found[0][0] or 0) if found else 0
