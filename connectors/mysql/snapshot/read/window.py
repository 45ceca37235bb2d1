"""The rows of one table that changed while a view was opened, read from the log; keeps the last image of each key.

The window is about a millisecond long, so it holds few rows. A row of the view whose key is in it may be older or newer
than the change, so it is skipped and replaced by the last image. Keys are compared as stored: a row of the view that
changed in the window has exactly the key that the log names before or after the change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SourceUnavailable
from cdc.source import Count
from connectors.mysql import events
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.server.positions import LogPosition, file_number
from connectors.mysql.snapshot.read.read_settings import ReadSettings
from connectors.mysql.table import MySqlTable

READ_S: Final = 1.0
SILENCE_S: Final = 30.0
_GONE: Final = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})


class Unusable(Exception):
    """The window cannot be merged with the view; open another one."""


@dataclass(slots=True)
class Window:
    """The changes of a table between two positions.

    Attributes:
        key: names of the columns that identify a row; empty without a key.
        images: rows seen, before and after images.
    """

    key: tuple[str, ...]
    images: int = 0
    _blocks: list[ChangeBlock] = field(default_factory=list)
    _touched: set[tuple[Any, ...]] = field(default_factory=set)
    _last: dict[tuple[Any, ...], tuple[int, int]] = field(default_factory=dict)
    _values: list[Any] = field(default_factory=list)

    def add(self, block: ChangeBlock, most: int) -> None:
        """Add changes. Raises Unusable when rows cannot be identified, or are more than `most`."""
        self.images += len(block)
        if self.images > most:
            raise Unusable(f"more than {most} rows changed")
        if not self.key:
            raise Unusable("rows changed, and the table has no key to tell them apart")
        number = len(self._blocks)
        self._blocks.append(block)
        for row, (kind, key) in enumerate(zip(block.kinds.to_pylist(), keys_of(block.rows, self.key), strict=True)):
            if None in key:
                raise Unusable("a key holds a date that no calendar has, so rows cannot be told apart")
            self._touched.add(key)
            if kind in _GONE:
                self._last.pop(key, None)
            else:
                self._last[key] = (number, row)

    def close(self) -> None:
        """Finish the window: no changes follow."""
        if self._blocks:
            rows, columns = self._blocks[0].rows, map(set, zip(*self._touched, strict=True))
            self._values = [
                pa.array(list(values), _plain(rows.column(name)).type)
                for name, values in zip(self.key, columns, strict=True)
            ]

    def without(self, rows: pa.RecordBatch) -> Any:
        """Return bool[n]: the rows of the view to keep; None to keep all."""
        if not self._values:
            return None
        hit = None
        for name, values in zip(self.key, self._values, strict=True):
            found = pc.is_in(_plain(rows.column(name)), value_set=values)
            hit = found if hit is None else pc.and_(hit, found)
        some = np.flatnonzero(np.asarray(hit))
        if not len(some):
            return None
        keep = np.ones(rows.num_rows, bool)
        for row, key in zip(some.tolist(), keys_of(rows.take(pa.array(some)), self.key), strict=True):
            keep[row] = key not in self._touched
        return None if keep.all() else keep

    def last_images(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that exist at the window's end, in parts."""
        rows: dict[int, list[int]] = {}
        for number, row in self._last.values():
            rows.setdefault(number, []).append(row)
        for number, some in sorted(rows.items()):
            yield self._blocks[number].rows.take(pa.array(sorted(some), pa.int64()))


def keys_of(rows: pa.RecordBatch, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Iterate over the values of some columns, row by row; dates and times as numbers."""
    return zip(*(_plain(rows.column(name)).to_pylist() for name in names), strict=True)


def _plain(values: pa.Array) -> pa.Array:
    """Convert dates and times to the integers they are stored as."""
    if pa.types.is_date32(values.type):
        return values.view(pa.int32())
    temporal = pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type)
    return values.view(pa.int64()) if temporal else values


def read_window(
    stream: BinlogStream,
    high: LogPosition,
    table: MySqlTable,
    key: tuple[str, ...],
    settings: ReadSettings,
    count: Count,
) -> Window:
    """Read the window from the beginning of the stream up to `high`; closes the stream. Executor.

    Args:
        key: columns that identify a row.
        count: receives values changed by the rules.

    Raises Unusable as `Window.add`, and when the table was altered in the window; otherwise as the stream and the
    decoder.
    """
    window, known = Window(key), {table.id: table}
    decoder = Decoder(known, captures=known.__contains__, count=count, rules=settings.rules)
    try:
        for buffer in buffers_until(stream, high):
            if names_table(buffer, table):
                raise Unusable("the table was altered")
            for block in decoder.decode(buffer):
                window.add(block, settings.most_window_rows)
    finally:
        stream.close()
    window.close()
    return window


def buffers_until(
    stream: BinlogStream, high: LogPosition, clock: Callable[[], float] = time.monotonic
) -> Iterator[ReceiveBuffer]:
    """Yield the log up to `high`. Raises SourceUnavailable when it does not arrive within SILENCE_S."""
    deadline = clock() + SILENCE_S
    last_file = file_number(high.file)
    while True:
        try:
            buffer = stream.read(0.0)
            if buffer is None:
                if LogPosition(stream.file, stream.position) >= high:
                    return
                buffer = stream.read(READ_S)
        except EndOfLog:
            if LogPosition(stream.file, stream.position) >= high:
                return
            raise SourceUnavailable("the log ends before a position that the server named", where=str(high)) from None
        if buffer is None:
            if clock() > deadline:
                raise SourceUnavailable(
                    f"the log up to a position did not arrive within {SILENCE_S:.0f} s", where=str(high)
                )
            continue
        if buffer.file_number > last_file:
            return
        kept = buffer.until(high.position) if buffer.file_number == last_file else buffer
        if len(kept):
            yield kept
        if len(kept) < len(buffer):
            return


def names_table(buffer: ReceiveBuffer, table: MySqlTable) -> bool:
    """Return whether a statement in the buffer may have altered the table, or voids rows."""
    for index in np.flatnonzero((buffer.type == events.QUERY) & (buffer.query_kind >= events.OTHER)).tolist():
        text = parse_query(buffer, index).sql.casefold()
        if text.startswith("xa "):
            continue
        voids = int(buffer.query_kind[index]) == events.ROLLBACK
        if voids or table.id.table.casefold() in text or "database" in text or "schema" in text:
            return True
    return False
