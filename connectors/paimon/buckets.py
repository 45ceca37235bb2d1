"""Which partition and bucket a row belongs to, with Java's hash, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.paimon.kernels import bucket as kernels
from connectors.shared.kernels.buffers import buffers, string_offsets

_LONGEST_COMPACT = 18
"""Decimal digits of a number that fits into 8 bytes."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Rows of one partition and bucket; `rows` are their numbers in order, None for all."""

    partition: tuple[Any, ...]
    bucket: int
    rows: pa.Array | None


def groups(
    rows: pa.RecordBatch, partition_keys: Sequence[str], bucket_keys: Sequence[str], buckets: int
) -> Iterator[BucketRows]:
    """The rows by partition and bucket. `buckets`: how many there are; below 1 for a table that has none.

    Bucket columns hold no NULL; those of partitions may, in tables without a key.
    """
    numbers = bucket_numbers(rows, bucket_keys, buckets) if buckets > 1 else np.zeros(rows.num_rows, np.int32)
    partitions = [rows.column(rows.schema.get_field_index(name)) for name in partition_keys]
    if not partitions and (buckets <= 1 or rows.num_rows == 0):
        if rows.num_rows:
            yield BucketRows((), 0, None)
        return
    names = [str(place) for place in range(len(partitions))]
    table = pa.table([*partitions, pa.array(numbers), pa.array(np.arange(rows.num_rows))], [*names, "b", "rows"])
    found = table.group_by([*names, "b"], use_threads=False).aggregate([("rows", "list")])
    for place in range(found.num_rows):
        partition = tuple(found.column(name)[place].as_py() for name in names)
        yield BucketRows(partition, found.column("b")[place].as_py(), found.column("rows_list")[place].values)


def bucket_numbers(rows: pa.RecordBatch, keys: Sequence[str], buckets: int) -> np.ndarray:
    """int32[n] buckets of the rows. The columns hold no NULL."""
    arrays = [rows.column(rows.schema.get_field_index(name)) for name in keys]
    columns = np.array([_column(array) for array in arrays], np.int64).reshape(len(arrays), len(kernels.FIELDS))
    longest = sum(_longest(array) for array in arrays)
    work = np.zeros(64 + 8 * len(arrays) + longest, np.uint8)
    found = np.empty(rows.num_rows, np.int32)
    kernels.hash_buckets(columns, rows.num_rows, buckets, work.ctypes.data, found)
    return found


def compile_kernel() -> None:
    """Have the kernel compiled, which the first batch would wait for."""
    bucket_numbers(pa.record_batch([pa.array([1]), pa.array(["a"])], names=["a", "b"]), ["a", "b"], 2)


def _column(array: pa.Array) -> tuple[int, ...]:
    place = buffers(array)
    return _form(array.type), place.width, place.values, place.offsets, place.bit


def _form(kind: pa.DataType) -> int:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return kernels.TEXT
    if pa.types.is_boolean(kind):
        return kernels.TRUTH
    if pa.types.is_decimal128(kind):
        return kernels.SHORT_DECIMAL if kind.precision <= _LONGEST_COMPACT else kernels.LONG_DECIMAL
    return kernels.MOMENT if pa.types.is_timestamp(kind) else kernels.PLAIN


def _longest(array: pa.Array) -> int:
    """Bytes that a value may take after the fields."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) or not len(array):
        return 16
    return 8 + int(np.diff(string_offsets(array)).max())
