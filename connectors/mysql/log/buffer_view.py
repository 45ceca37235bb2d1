"""A buffer with the vectors needed for planning, computed once, so that planning runs no Python per event."""

from __future__ import annotations

import numpy as np

from cdc.errors import CorruptLog
from connectors.mysql import events
from connectors.mysql.log.receive_buffer import Ints, ReceiveBuffer

_ROW_BYTES = 100
"""Row estimate: at least one row per event, about one per 100 bytes."""

_ROWS = np.array(sorted(events.ROWS_TYPES), np.uint8)
_TABLE_ID_SIZE = 6

_MARIADB_FLAGS = 12  # offset of flags2 in the body of a MARIADB_GTID event (`Gtid_log_event` in sql/log_event.h)
_STANDALONE, _GROUP_COMMIT, _XA = 0x01, 0x02, 0x40 | 0x80
_START_ALTER, _ROLLBACK_ALTER = 0x02, 0x08


class BufferView:
    """The vectors of a buffer that begins at `position`. Raises CorruptLog for events that are too short.

    Attributes:
        bytes, rows: int64[n + 1]; log bytes and estimated rows before event n.
        maps, ids: TABLE_MAP events and their table ids.
        statements: QUERY events that need individual handling, and EXECUTE_LOAD_QUERY: LOAD DATA logged as a statement.
        prepares: XA_PREPARE events.
        begins: events that open a transaction: BEGIN, or MariaDB's GTID unless its statement stands alone.
        is_end: bool[n]; the event ends a transaction. For `statements` the planner determines it and writes it here.
    """

    def __init__(self, buffer: ReceiveBuffer, position: int) -> None:
        self.buffer = buffer
        steps = np.diff(buffer.end_position, prepend=np.int64(position))
        self.bytes = np.concatenate(([0], np.cumsum(np.maximum(steps, 0))))
        is_rows = np.isin(buffer.type, _ROWS)
        estimate = np.where(is_rows, np.maximum((buffer.end - buffer.start) // _ROW_BYTES, 1), 0)
        self.rows = np.concatenate(([0], np.cumsum(estimate)))
        self.maps = _events(buffer, buffer.type == events.TABLE_MAP, _TABLE_ID_SIZE)
        self.ids = table_ids(buffer, self.maps)
        gtids = _events(buffer, buffer.type == events.MARIADB_GTID, _MARIADB_FLAGS + 1)
        self.mariadb = len(gtids) > 0
        is_query = buffer.type == events.QUERY
        is_load = buffer.type == events.EXECUTE_LOAD_QUERY
        self.statements = np.flatnonzero((is_query & (buffer.query_kind >= events.OTHER)) | is_load)
        self.prepares = np.flatnonzero(buffer.type == events.XA_PREPARE)
        self.is_end = (buffer.type == events.XID) | (buffer.type == events.XA_PREPARE)
        self.is_end |= is_query & (buffer.query_kind == events.COMMIT)
        self.begins = np.flatnonzero(is_query & (buffer.query_kind == events.BEGIN))
        if self.mariadb:
            flags = buffer.data[buffer.start[gtids] + events.HEADER_SIZE + _MARIADB_FLAGS]
            self.begins = np.union1d(self.begins, gtids[(flags & _STANDALONE) == 0])

    def stop_before(self, index: int) -> int:
        """Return the index after the last transaction end before `index`; 0 when there is none in this buffer."""
        found = np.flatnonzero(self.is_end[:index])
        return int(found[-1]) + 1 if len(found) else 0

    def open_at(self, index: int, before: bool) -> bool:
        """Return whether the event at `index` is inside a transaction; `before` says so for the start of the buffer."""
        begin = int(np.searchsorted(self.begins, index)) - 1
        last_begin = int(self.begins[begin]) if begin >= 0 else -1
        last_end = self.stop_before(index) - 1
        if last_begin < 0 and last_end < 0:
            return before
        return last_begin > last_end

    def announces(self, index: int) -> bool:
        """Return whether a MARIADB_GTID event announces only the begin or the rollback of the ALTER that follows.

        With `binlog_alter_two_phase` the statement is logged when it begins and again when it ends; only the latter
        counts.
        """
        if int(self.buffer.type[index]) != events.MARIADB_GTID:
            return False
        body = self.buffer.body(index)
        if body[_MARIADB_FLAGS] & _XA:
            return False
        at = _MARIADB_FLAGS + 1 + (8 if body[_MARIADB_FLAGS] & _GROUP_COMMIT else 0)
        return bool(body[at : at + 1]) and bool(body[at] & (_START_ALTER | _ROLLBACK_ALTER))


def table_ids(buffer: ReceiveBuffer, maps: Ints) -> Ints:
    """Return int64[m]: the 6-byte table id of each TABLE_MAP event."""
    at = buffer.start[maps] + events.HEADER_SIZE
    ids = np.zeros(len(maps), np.int64)
    for byte in range(_TABLE_ID_SIZE):
        ids |= buffer.data[at + byte].astype(np.int64) << (8 * byte)
    return ids


def _events(buffer: ReceiveBuffer, wanted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], body_size: int) -> Ints:
    found = np.flatnonzero(wanted)
    short = found[buffer.end[found] - buffer.start[found] < events.HEADER_SIZE + body_size]
    if len(short):
        index = int(short[0])
        name = events.type_name(int(buffer.type[index]))
        raise CorruptLog(f"a {name} event is too short", where=buffer.where(index))
    return found
