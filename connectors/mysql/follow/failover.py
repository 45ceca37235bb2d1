"""Continues on another server: finds the position in its log after the pipeline's committed transactions.

Positions belong to one server. A batch is planned on one server, so a move is a batch of its own: it holds no rows, its
start has the old server's position and its end the new one's, with the same GTIDs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cdc.schema import TableId
from connectors.mysql.follow.resume_point import find_resume_point
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import check_gtid_position, file_number
from connectors.mysql.server.same_server import check_has_transactions, needed_gtids
from connectors.mysql.server.server_check import check_server
from connectors.mysql.server.server_info import where_of

if TYPE_CHECKING:
    from connectors.mysql.follow.streams import Streams


def offset_on_new_server(start: MySqlOffset, streams: Streams, captures: Callable[[TableId], bool]) -> MySqlOffset:
    """Translate an offset of another server to the current server. Stream reader; repeatable.

    Raises:
        SourceUnavailable: the server lacks committed transactions; it may still receive them.
        AnotherServer: the server changed again meanwhile.
        PositionLost: it has purged transactions that are not committed by the pipeline.
        UnsupportedChange: in the order of its log, no position separates committed from other transactions.
        SourceError: there are no GTIDs to find the position by, or the server cannot be captured from.
    """
    with streams.session() as connection:
        info, where = check_server(connection, captures), where_of(connection)
        done = needed_gtids(start.gtids, where, old=start.server, new=info.identity)
        check_has_transactions(info, done, where, old=start.server)
        check_gtid_position(connection, info, done)
    open_stream = partial(streams.at, server=info.identity)
    found = find_resume_point(info, done, where, open_stream, partial(streams.after, server=info.identity), captures)
    ahead = start.files_ahead + file_number(start.position.file) + 1 - file_number(found.position.file)
    least = start.files_ahead + 1 if info.identity == start.server else 0  # a move is recognized by either field
    return replace(
        start, position=found.position, gtids=found.gtids, server=info.identity, files_ahead=max(ahead, least)
    )
