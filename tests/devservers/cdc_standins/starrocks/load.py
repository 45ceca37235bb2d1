"""One load in the back end's memory: bodies in, staged rows out. Its end says how many rows, or what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from cdc_standins.data import DELETE
from cdc_standins.http_server import BLOCK_BYTES, Body
from cdc_standins.starrocks.count import RowCounter
from cdc_standins.starrocks.csv_rows import CsvReader, Window
from cdc_standins.starrocks.errors import LoadFailure, analysis, internal
from cdc_standins.starrocks.headers import LoadHeaders
from cdc_standins.starrocks.json_rows import JsonReader
from cdc_standins.starrocks.plan import OPERATION, Plan, make_plan
from cdc_standins.starrocks.rows import RowBuilder
from cdc_standins.starrocks.schema import Table

_NO_ROWS = (
    "No partitions have data available for loading. If you are sure there may be no data to be loaded, you can use "
    "`ADMIN SET FRONTEND CONFIG ('empty_load_as_error' = 'false')` to ensure such load jobs can succeed"
)
_MOST_JSON_BYTES = 100 << 20
_CODECS = {"GZIP": "gzip", "BZIP2": "bz2", "LZ4_FRAME": "lz4", "ZSTD": "zstd"}


class Reader(Protocol):
    """Splits what comes into windows of rows."""

    def feed(self, data: bytes) -> Iterator[Window]:
        """Take bytes; windows that are complete."""

    def end_body(self) -> Iterator[Window]:
        """A request's body has ended."""

    def finish(self) -> Iterator[Window]:
        """What is left."""


class Load:
    """The bodies of one transaction, or of one plain load. Used by one thread at a time."""

    def __init__(self, table: Table, headers: LoadHeaders, *, count_only: bool) -> None:
        """Make the plan. Raises LoadFailure where the server refuses it."""
        begun = time.monotonic()
        self.headers = headers
        self.body_bytes = 0
        self.read_ms = self.write_ms = 0
        self._plan = make_plan(table, headers.columns, partial=headers.partial_update, json=headers.format == "json")
        self._builder = RowBuilder(self._plan, strict=headers.strict)
        self._reader = _reader(self._plan, headers)
        self._counter = RowCounter(headers.row_delimiter) if count_only and headers.format == "csv" else None
        self._batches: list[pa.RecordBatch] = []
        self._failure: LoadFailure | None = None
        self.plan_ms = _ms_since(begun)

    @property
    def partial(self) -> tuple[str, ...]:
        """Staged names of the columns of a partial update; empty for whole rows."""
        return tuple(output.column.staged for output in self._plan.outputs) if self._plan.partial else ()

    def receive(self, body: Body, came: Callable[[int], None]) -> None:
        """Read a body to its end, calling `came`. What is wrong with its rows is kept for the end of the load."""
        begun = time.monotonic()
        self._check_json_size(body)
        buffer = bytearray(BLOCK_BYTES)
        compressed = bytearray() if self.headers.compression else None
        for count in body.into(buffer):
            self.body_bytes += count
            came(body.bytes_read)
            if compressed is not None:
                compressed += memoryview(buffer)[:count]
            elif self._counter is not None:
                self._counter.feed(buffer, count)
            else:
                self._take(bytes(memoryview(buffer)[:count]))
        if compressed is not None:
            self._take(_decompressed(bytes(compressed), str(self.headers.compression)))
        self._build(self._reader.end_body())
        self.read_ms += _ms_since(begun)

    def _check_json_size(self, body: Body) -> None:
        """JSON that says its length may have only so much, all bodies of a transaction together."""
        total = self.body_bytes + (body.length or 0)
        if self.headers.format == "json" and not self.headers.ignore_json_size and total > _MOST_JSON_BYTES:
            raise internal(
                f"The size of this batch exceed the max size [{_MOST_JSON_BYTES}]  of json type data "
                f" data [ {total} ]. "
                "Set ignore_json_size to skip the check, although it may lead huge memory consuming."
            )

    def finish(self) -> dict[str, int]:
        """The counts of the replies. Raises LoadFailure for rows that are refused, with lines for the error log."""
        begun = time.monotonic()
        self._build(self._reader.finish())
        if self._failure is not None:
            raise self._failure
        counts = self._builder.counts
        total = self._counter.rows if self._counter is not None else counts.total
        loaded = total - counts.filtered
        if total and counts.filtered / total > self.headers.max_filter_ratio:
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

    @property
    def errors(self) -> list[str]:
        """Lines of the error log of a load that went through all the same."""
        return self._builder.counts.errors

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

    def _take(self, data: bytes) -> None:
        self._build(self._reader.feed(data))

    def _build(self, windows: Iterator[Window]) -> None:
        if self._failure is not None:
            return
        try:
            for window in windows:
                self._batches.append(self._builder.build(window))
        except LoadFailure as failure:
            self._failure = failure


def _reader(plan: Plan, headers: LoadHeaders) -> Reader:
    if headers.format == "json":
        return JsonReader(plan, strip_outer_array=headers.strip_outer_array)
    return CsvReader(len(plan.slots), headers.column_separator, headers.row_delimiter, skip_header=headers.skip_header)


def _decompressed(data: bytes, compression: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), _CODECS[compression]) as stream:
            return bytes(stream.read())
    except OSError as error:
        raise internal(f"the body is no {compression} stream: {error}") from error


def _ms_since(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
