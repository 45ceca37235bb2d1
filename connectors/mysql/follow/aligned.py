"""A position inside a transaction as the one where the transaction begins: it is then sent again as a whole."""

from __future__ import annotations

import numpy as np

from connectors.mysql.follow.follower import OpenStream
from connectors.mysql.follow.startup import whole_log
from connectors.mysql.log.buffer_view import BufferView
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.sieve import begin_of, transaction_begins
from connectors.mysql.server.positions import LogPosition


def aligned(open_stream: OpenStream, at: LogPosition) -> LogPosition:
    """The last place up to `at` where no transaction is under way. Reads the file. Raises SourceUnavailable.

    `at` itself when a transaction begins there or the file ends there.
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
