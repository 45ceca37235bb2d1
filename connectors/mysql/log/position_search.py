"""Positions found by reading a server's log: a first transaction, the transactions committed at a position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cdc.errors import SourceUnavailable
from connectors.mysql import events
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.event_bodies import (
    gtid_runs,
    mariadb_gtid_runs,
    parse_gtid_list,
    parse_previous_gtids,
)
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import BinlogStream, EndOfLog, OpenStream
from connectors.mysql.log.transaction_filter import begin_of
from connectors.mysql.server.positions import LogPosition

READ_S = 30.0


def whole_log(stream: BinlogStream) -> Iterator[ReceiveBuffer]:
    """Yield all buffers up to the end of the log. Raises as `BinlogStream.read`."""
    try:
        while True:
            buffer = stream.read(READ_S)
            if buffer is None:
                raise SourceUnavailable("the server stopped sending its log", where=f"{stream.file}:{stream.position}")
            yield buffer
    except EndOfLog:
        return
    finally:
        stream.close()


def first_after(stream: BinlogStream, end: LogPosition) -> LogPosition:
    """Return the begin of the first transaction that the server sends; `end` when it sends none."""
    for buffer in whole_log(stream):
        starts = np.flatnonzero(np.isin(buffer.type, sorted(events.GTID_TYPES)))
        if len(starts):
            return begin_of(buffer, int(starts[0]))
    return end


def first_at(open_stream: OpenStream, start: LogPosition, time_ms: int) -> LogPosition:
    """Return the begin of the first transaction committed at `time_ms` or later; else the end of the log.

    The search begins at `start`. MariaDB logs whole seconds: there it is the first transaction of that second.
    """
    end, second_ms = start, time_ms // 1000 * 1000
    for buffer in whole_log(open_stream(start, True)):
        late = np.isin(buffer.type, sorted(events.GTID_TYPES)) & (buffer.commit_ms >= time_ms)
        late |= (buffer.type == events.MARIADB_GTID) & (buffer.commit_ms >= second_ms)
        if late.any():
            return begin_of(buffer, int(np.flatnonzero(late)[0]))
        end = LogPosition(buffer.file, int(buffer.end_position[-1]))
    return end


def gtids_at(open_stream: OpenStream, at: LogPosition) -> str:
    """Return the transactions committed at a position: those listed at the start of its file and those before it."""
    mysql, mariadb = GtidSet(), MariaDbGtid()
    is_mariadb = begun = False
    for buffer in whole_log(open_stream(LogPosition(at.file), True)):
        if buffer.file != at.file:
            break
        part = buffer.until(at.position)
        for index in np.flatnonzero(buffer.type == events.PREVIOUS_GTIDS):
            mysql = mysql.add_all(parse_previous_gtids(buffer, int(index)))
        for index in np.flatnonzero(buffer.type == events.MARIADB_GTID_LIST):
            mariadb, is_mariadb = mariadb.add_all(parse_gtid_list(buffer, int(index))), True
        mysql = mysql.add_all(gtid_runs(part, 0, len(part)))
        runs = mariadb_gtid_runs(part, 0, len(part))
        mariadb, is_mariadb = mariadb.add_all(runs), is_mariadb or bool(runs)
        begun |= bool(np.isin(buffer.type, (events.PREVIOUS_GTIDS, events.MARIADB_GTID_LIST)).any())
        if begun and int(buffer.end_position[-1]) >= at.position:
            break
    return str(mariadb) if is_mariadb else str(mysql)
