"""Whether the log between two positions says nothing of some tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log import events
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.table_map import table_name
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.read.window import buffers_until

MOST_BYTES: Final = 256 << 20
"""More log is not looked through."""
_READER: Final = 1 << 20
"""No task has this number, so the replica id is none of the pipeline's."""
_TABLE_ID_BYTES: Final = 6


def quiet(streams: Streams, start: LogPosition, end: LogPosition, tables: Sequence[TableId]) -> bool:
    """False when there are rows or statements of these tables, when the log is gone, or longer than MOST_BYTES.

    Raises SourceUnavailable while the server is away.
    """
    if start.file != end.file or end.position - start.position > MOST_BYTES:
        return False
    try:
        stream = streams.at(start, until_end=True, reader=_READER)
        try:
            return not any(_names(buffer, tables) for buffer in buffers_until(stream, end))
        finally:
            stream.close()
    except SourceError as error:
        if error.retryable:
            raise
        return False


def _names(buffer: ReceiveBuffer, tables: Sequence[TableId]) -> bool:
    kinds = buffer.type.tolist()
    maps = (index for index, kind in enumerate(kinds) if kind == events.TABLE_MAP)
    named = {table_name(buffer.body(index)[_TABLE_ID_BYTES:]) for index in maps}
    folded = {(table.database.casefold(), table.table.casefold()) for table in tables}
    if any((name.database.casefold(), name.table.casefold()) in folded for name in named):
        return True
    statements = (
        parse_query(buffer, index).sql.casefold()
        for index, kind in enumerate(kinds)
        if kind == events.QUERY and int(buffer.query_kind[index]) >= events.OTHER
    )
    return any(_may_change(text, tables) for text in statements)


def _may_change(statement: str, tables: Sequence[TableId]) -> bool:
    """Prepared transactions may change any table, and statements that name a database its tables."""
    if statement.startswith("xa "):
        return True
    words = [table.table for table in tables]
    if "database" in statement or "schema" in statement:
        words += [table.database for table in tables]
    return any(re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", statement) for word in words)
