"""Translates another tool's position to this server's log. Driver, for `cdc import`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cdc.errors import PositionLost, SourceError
from connectors.mysql.follow.foreign import DeliveredPart, parse_position
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.buffer_view import BufferView
from connectors.mysql.log.position_search import whole_log
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import OpenStream
from connectors.mysql.log.transaction_filter import begin_of, transaction_begins
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import LogPosition, check_file_position, check_had
from connectors.mysql.server.server_info import ServerInfo, server_info, where_of

_AGAIN = (
    " (a connector that is idle has stored the place before its last transaction: that one comes again, and gives a "
    "table without a key its rows twice; the last message of its topics says more, see docs/migrate.md)"
)


@dataclass(frozen=True, slots=True)
class Imported:
    """A position to start at.

    Attributes:
        tool: the tool that stored it.
        options: fields of the source's options that start there.
        notes: text for the user, after the position.
        inside: what the tool has delivered after that position; None if it does not say.
    """

    tool: str
    options: Mapping[str, object]
    notes: str
    inside: DeliveredPart | None = None


def import_position(position: str, streams: Streams) -> Imported:
    """Resolve another tool's stored position. Raises SourceError, PositionLost."""
    found = parse_position(position)
    more: dict[str, object] = {"startup_mode": "specific-offset", "specific_offset_gtid_set": None}
    notes = ""
    with streams.session() as session:
        info = server_info(session)
        if found.gtids and info.gtid:
            check_had(session, info, found.gtids)
            more["specific_offset_gtid_set"] = found.gtids
            notes = _contradiction(session, info, found.at)
        elif found.at is not None:
            check_file_position(session, info, found.at)
        else:
            raise SourceError("the server has no GTIDs, and the position names no file", where=where_of(session))
    if more["specific_offset_gtid_set"] is None and found.at is not None:
        at = align_position(streams.at, found.at)
        more |= {"specific_offset_file": at.file, "specific_offset_pos": at.position}
    again = _AGAIN if found.inside is None and found.tool == "Debezium" else ""
    return Imported(found.tool, more, notes + again, found.inside)


def _contradiction(session: MySqlConnection, info: ServerInfo, at: LogPosition | None) -> str:
    """Return a note about a file and position that do not exist on this server, although it has the GTIDs."""
    try:
        if at is not None:
            check_file_position(session, info, at)
    except PositionLost as error:
        return f"; its GTIDs count, though not {at} beside them: {error.message}"
    return ""


def align_position(open_stream: OpenStream, at: LogPosition) -> LogPosition:
    """Return the last position up to `at` outside of transactions. Reads the file. Raises SourceUnavailable.

    Returns `at` itself when a transaction begins there or the file ends there.
    """
    found, last = LogPosition(at.file), 4
    for buffer in whole_log(open_stream(LogPosition(at.file), True)):
        if buffer.file != at.file:
            break
        found = _last_place(buffer, last, at.position, found)
        last = int(buffer.end_position[-1])
        if last > at.position:
            break
    return at if last == at.position else found


def _last_place(buffer: ReceiveBuffer, start: int, limit: int, found: LogPosition) -> LogPosition:
    view = BufferView(buffer, start)
    ends = buffer.end_position[np.flatnonzero(view.is_end)].tolist()
    begins = [begin_of(buffer, index).position for index in transaction_begins(buffer)]
    places = [int(place) for place in (*ends, *begins) if place <= limit]
    return LogPosition(buffer.file, max(places)) if places else found
