"""One load in the back end's memory: bodies in, staged rows out. Its end says how many rows, or what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from cdc_standins.data import DELETE
from cdc_standins.http_server import BLOCK_BYTES, Body
from cdc_standins.load_text import RowCounter, TextReader, Window, unpacked
from cdc_standins.starrocks.errors import LoadFailure, analysis, internal
from cdc_standins.starrocks.headers import LoadHeaders, text_format
from cdc_standins.starrocks.plan import OPERATION, plan_pipeline
from cdc_standins.starrocks.rows import RowBuilder
from cdc_standins.starrocks.schema import Table

_NO_ROWS = (
    "No partitions have data available for loading. If you are sure there may be no data to be loaded, you can use "
    "`ADMIN SET FRONTEND CONFIG ('empty_load_as_error' = 'false')` to ensure such load jobs can succeed"
)


class Load:
    """The bodies of one transaction, or of one plain load. Used by one thread at a time."""

    def __init__(self, table: Table, headers: LoadHeaders, *, count_only: bool) -> None:
        """Make the plan. Raises LoadFailure where the server refuses it."""
        begun = time.monotonic()
        self.body_bytes = 0
        self.read_ms = self.write_ms = 0
        self._codec = headers.codec
        self._plan = plan_pipeline(table, headers.columns)
        self._builder = RowBuilder(self._plan)
        self._reader = TextReader(text_format(headers), len(self._plan.slots))
        self._counter = RowCounter(headers.delimiter) if count_only else None
        self._batches: list[pa.RecordBatch] = []
        self._failure: LoadFailure | None = None
        self.plan_ms = _ms_since(begun)

    def receive(self, body: Body, came: Callable[[int], None]) -> None:
        """Read a body to its end, calling `came`. What is wrong with its rows is kept for the end of the load."""
        begun = time.monotonic()
        buffer = bytearray(BLOCK_BYTES)
        packed = bytearray()
        for count in body.into(buffer):
            self.body_bytes += count
            came(body.bytes_read)
            if self._codec:
                packed += memoryview(buffer)[:count]
            else:
                self._append(buffer, count)
        if self._codec:
            text = bytearray(_decompressed(bytes(packed), self._codec))
            self._append(text, len(text))
        self.read_ms += _ms_since(begun)

    def _append(self, buffer: bytearray, count: int) -> None:
        if self._counter is not None:
            self._counter.feed(buffer, count)
        else:
            self._build(self._reader.feed(memoryview(buffer)[:count]))

    def finish(self) -> dict[str, int]:
        """The counts of the replies. Raises LoadFailure for rows that are refused, with lines for the error log."""
        begun = time.monotonic()
        self._build(self._reader.finish())
        if self._failure is not None:
            raise self._failure
        counts = self._builder.counts
        total = self._counter.rows if self._counter is not None else counts.total
        loaded = total - counts.filtered
        if counts.filtered:
            failure = internal("too many filtered rows")
            failure.error_rows = tuple(counts.errors)
            raise failure
        if not loaded:
            raise analysis(_NO_ROWS)
        self.write_ms += _ms_since(begun)
        return {
            "NumberTotalRows": total,
            "NumberLoadedRows": loaded,
            "NumberFilteredRows": counts.filtered,
            "NumberUnselectedRows": 0,
            "LoadBytes": self.body_bytes,
        }

    def rows(self) -> pa.Table:
        """The rows to stage: of a table with a primary key the last one of each key, with the mark of a delete."""
        rows = pa.Table.from_batches(self._batches, self._builder.schema)
        if not self._plan.table.primary:
            return rows.drop_columns([OPERATION])
        keys = [column.staged for column in self._plan.table.keys]
        numbered = rows.append_column("$row", pa.array(range(rows.num_rows), pa.int64()))
        last = numbered.group_by(keys).aggregate([("$row", "max")]).column("$row_max").sort()
        names = [DELETE if name == OPERATION else name for name in rows.column_names]
        return rows.take(last).rename_columns(names)

    def _build(self, windows: Iterator[Window]) -> None:
        if self._failure is not None:
            return
        try:
            for window in windows:
                self._batches.append(self._builder.build(window))
        except LoadFailure as failure:
            self._failure = failure


def _decompressed(data: bytes, codec: str) -> bytes:
    try:
        return unpacked(data, codec)
    except OSError as error:
        raise internal(f"the body is no {codec} stream: {error}") from error


def _ms_since(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
