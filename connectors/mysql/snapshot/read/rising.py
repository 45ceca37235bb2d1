"""Keeps rows of chunks in rising order, whatever the log positions at which they are read. Executor."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, Stream
from cdc.errors import SourceUnavailable
from cdc.process.faults import crash_point
from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import Watermark

_ROWS = frozenset({Stream.SNAPSHOT_ROWS})


class Rising:
    """Keeps (sequence, row) rising from chunk to chunk: on a quiet server two chunks may have the same position."""

    def __init__(self) -> None:
        self._last: dict[TableId, tuple[int, int]] = {}

    def blocks(
        self, blocks: Generator[ChangeBlock, None, Watermark], least: int, number: int
    ) -> Generator[ChangeBlock, None, Watermark]:
        """Yield a chunk's blocks. Raises SourceUnavailable when the view is from before `least`.

        MariaDB sends a transaction to readers of its log a moment before views show it; such a view is one transaction
        after.
        """
        shift = 0
        crash_point("before-chunk", number)
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                found: Watermark = end.value
                if found.done:
                    _check_place(found.sequence, least)
                crash_point("after-chunk", number)
                return found
            if not len(block):
                continue
            sequence, row = block.sequence[0].as_py(), block.row[0].as_py()
            _check_place(sequence, least)
            before, last = self._last.get(block.table, (0, -1))
            if sequence == before and row + shift <= last:
                shift = last + 1 - row
            if shift:
                block = replace(block, row=pc.add(block.row, pa.scalar(shift, pa.int32())))
            self._last[block.table] = sequence, block.row[-1].as_py()
            yield replace(block, streams=_ROWS)
            crash_point("in-chunk", number)


def _check_place(sequence: int, least: int) -> None:
    if sequence < least:
        raise SourceUnavailable("a view of a table is older than the log in the batch; it is opened again")
