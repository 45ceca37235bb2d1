"""One block's memory: a single buffer that the row kernel fills and that becomes Arrow arrays without a copy."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock
from cdc.errors import CorruptLog, UnsupportedChange
from cdc.source import Count
from connectors.mysql.addresses import address_text
from connectors.mysql.charsets.conversion import to_utf8
from connectors.mysql.kernels import ops
from connectors.mysql.kernels.layout import lay_out, open_arena
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.column_plan import Finish, RowPlan
from connectors.mysql.rows.json_diff import apply_diffs_text

Array = Any
_INVALID_TEXT = (
    "set invalid-text: replace; for a key, correct the value in the source and exclude the table with tables.exclude "
    "for one run, after which it is copied"
)
_LONGEST = (1 << 32) - 1
"""Bytes in a LONGBLOB."""
_UINT8, _INT64, _INT32 = pa.uint8(), pa.int64(), pa.int32()


def finish_array(
    array: Array, finish: Finish, arrow: Array, where: str, replaced: Callable[[int], None] | None = None
) -> Array:
    """Convert a binary array to its final type.

    `where` names table, position and column for errors, `replaced` is `to_utf8`'s. Raises CorruptLog for compressed
    values that do not decompress, UnsupportedChange for bytes outside their charset.
    """
    if finish.step == "inflate":
        array = pa.array([None if value is None else inflate(value, where) for value in array.to_pylist()], pa.binary())
    elif finish.step:
        values = (None if value is None else address_text(value, finish.step) for value in array.to_pylist())
        return pa.array(values, arrow)
    if finish.charset is not None:
        try:
            return to_utf8(array, finish.charset, replaced)
        except UnsupportedChange as error:
            raise UnsupportedChange(error.message, where=where, hint=_INVALID_TEXT) from error
    return array.view(arrow) if array.type != arrow else array


def inflate(value: bytes, where: str) -> bytes:
    """Decompress a value of a MariaDB COMPRESSED column.

    Format (MariaDB `sql/field_comp.cc`): nothing for an empty value; a zero byte and the plain value; or 0x80 + size of
    the length (+ 8 when without zlib header), that many bytes of length, big-endian, and the deflated value.
    """
    if not value:
        return b""
    if value[0] == 0:
        return value[1:]
    size = value[0] & 7
    length = int.from_bytes(value[1 : 1 + size], "big")
    reader = zlib.decompressobj(-zlib.MAX_WBITS if value[0] & 8 else zlib.MAX_WBITS)
    try:
        plain = reader.decompress(value[1 + size :], min(length, _LONGEST) + 1)
    except zlib.error as error:
        raise CorruptLog(f"a compressed value cannot be read: {error}", where=where) from error
    if len(plain) != length:
        raise CorruptLog("a compressed value does not have its stated length", where=where)
    return plain


class Arena:
    """Buffers for at most `rows` row images of one table.

    Args:
        plan: the table's plan.
        rows: row images that must fit.
        bound: maximum bytes of log that they come from.
        averages: float64[columns], average bytes per row of variable-length columns; negative when unknown.
    """

    __slots__ = ("_buffer", "_layout", "base", "head", "layout", "plan", "rows")

    def __init__(self, plan: RowPlan, rows: int, bound: int, averages: Array) -> None:
        self.plan, self.rows = plan, rows
        self.layout, self.head = plan.numbers.copy(), np.zeros(1, ops.HEAD)
        layout, head = self.layout.view(np.int64).reshape(len(self.layout), -1), self.head.view(np.int64)
        lay_out(layout, head, rows, bound, averages)
        self._buffer = pa.allocate_buffer(int(head[-1]))
        self.base = self._buffer.address
        open_arena(layout, head, self.base)

    def averages(self, rows: int) -> Array:
        """Return the bytes per row used by each variable-length column; 0 for the others."""
        used = self.layout["data_at"] - self.layout["data"]
        return np.where(self.layout["width"] < 0, used, 0) / max(rows, 1)

    def block(
        self,
        rows: int,
        nulls_known: bool,
        patch: Callable[[int, Array], Array] | None,
        where: str,
        replaced: Count | None,
    ) -> ChangeBlock:
        """Return the first `rows` row images. `patch(column, array)` may replace values that the kernel left to Python.

        `replaced` counts values with bytes outside their character set; None refuses them.
        """
        columns = self.layout.tolist()
        arrays = []
        for index, (kind, finish) in enumerate(zip(self.plan.raw, self.plan.finish, strict=True)):
            array = self._column(kind, rows, columns[index], nulls_known)
            if patch is not None:
                array = patch(index, array)
            if finish is not None:
                field = self.plan.arrow.field(index)
                count = None if replaced is None else self._counter_for(field.name, replaced)
                array = finish_array(array, finish, field.type, f"{where}, column {field.name}", count)
            arrays.append(array)
        kinds, sequences, numbers, times = self.head.tolist()[0][:4]
        return ChangeBlock(
            self.plan.table.id,
            self.plan.schema,
            pa.RecordBatch.from_arrays(arrays, schema=self.plan.arrow),
            self._plain(_UINT8, rows, kinds, 1),
            self._plain(_INT64, rows, sequences, 8),
            self._plain(_INT32, rows, numbers, 4),
            self._plain(_INT64, rows, times, 8),
        )

    def _counter_for(self, column: str, count: Count) -> Callable[[int], None] | None:
        """Return the counter of replacement characters; None for a key column, where they could make keys equal."""
        if column in self.plan.schema.primary_key:
            return None
        return partial(count, f"replacement-characters {self.plan.table.id}.{column}")

    def _slice(self, address: int, size: int) -> Array:
        return self._buffer.slice(address - self.base, size)

    def _plain(self, kind: Array, rows: int, address: int, width: int) -> Array:
        return pa.Array.from_buffers(kind, rows, [None, self._slice(address, rows * width)], 0)

    def _column(self, kind: Array, rows: int, place: tuple[int, ...], nulls_known: bool) -> Array:
        values, data, data_at, validity, width = place[2], place[3], place[4], place[7], place[11]
        nulls = place[14] if nulls_known else -1
        valid = self._slice(validity, (rows + 7) >> 3) if nulls else None
        if width > 0:
            return pa.Array.from_buffers(kind, rows, [valid, self._slice(values, rows * width)], nulls)
        if width == ops.BITS_OUT:
            return pa.Array.from_buffers(kind, rows, [valid, self._slice(values, (rows + 7) >> 3)], nulls)
        offsets, content = self._slice(values, 4 * (rows + 1)), self._slice(data, data_at - data)
        if width == ops.BYTES_OUT:
            return pa.Array.from_buffers(kind, rows, [valid, offsets, content], nulls)
        items = pa.Array.from_buffers(kind.value_type, (data_at - data) >> 2, [None, content], 0)
        return pa.Array.from_buffers(kind, rows, [valid, offsets], nulls, children=[items])


def patched(array: Array, rows: Array, values: list[str]) -> Array:
    """Return the array with `values` at `rows` (ascending)."""
    mask = np.zeros(len(array), bool)
    mask[rows] = True
    return pc.replace_with_mask(array, pa.array(mask), pa.array(values, array.type))


def text_patch(buffer: ReceiveBuffer, entries: Array, where: str) -> Callable[[int, Array], Array]:
    """Return a patch for `Arena.block` that completes the JSON values of a slow list, ops.SLOW[n].

    The patch raises CorruptLog, with `where`, for changes that cannot be read or do not fit.
    """

    def text(entry: Array) -> str:
        before, after = (
            buffer.data[entry[start] : entry[end]] for start, end in (("base_start", "base_end"), ("start", "end"))
        )
        return apply_diffs_text(before.tobytes(), after.tobytes())

    def patch(column: int, array: Array) -> Array:
        wanted = entries[entries["column"] == column]
        if not len(wanted):
            return array
        try:
            return patched(array, wanted["row"], [text(entry) for entry in wanted])
        except CorruptLog as error:
            raise CorruptLog(error.message, where=where, hint=error.hint) from error

    return patch
