"""Find the partition and bucket of rows, with the hash of Paimon's Java code, one block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.paimon.kernels import bucket as kernels
from connectors.shared.kernels.buffers import buffers, string_offsets

_LONGEST_COMPACT = 18
"""The decimal digits of a number that fits into 8 bytes."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The rows of one partition and bucket; `rows` has their numbers in order, or None for all rows."""

    partition: tuple[Any, ...]
    bucket: int
    rows: pa.Array | None


def groups(
    rows: pa.RecordBatch, partition_keys: Sequence[str], bucket_keys: Sequence[str], buckets: int
) -> Iterator[BucketRows]:
    """Group the rows by partition and bucket. `buckets` is their number, below 1 for a table without buckets.

    Bucket columns have no NULL; partition columns may have some in tables without a key.
    """
    numbers = bucket_numbers(rows, bucket_keys, buckets) if buckets > 1 else np.zeros(rows.num_rows, np.int32)
    partitions = [rows.column(rows.schema.get_field_index(name)) for name in partition_keys]
    if not partitions and (buckets <= 1 or rows.num_rows == 0):
        if rows.num_rows:
            yield BucketRows((), 0, None)
        return
    names = [str(row) for row in range(len(partitions))]
    table = pa.table([*partitions, pa.array(numbers), pa.array(np.arange(rows.num_rows))], [*names, "b", "rows"])
    found = table.group_by([*names, "b"], use_threads=False).aggregate([("rows", "list")])
    for row in range(found.num_rows):
        partition = tuple(found.column(name)[row].as_py() for name in names)
        yield BucketRows(partition, found.column("b")[row].as_py(), found.column("rows_list")[row].values)


def bucket_numbers(rows: pa.RecordBatch, keys: Sequence[str], buckets: int) -> np.ndarray:
    """The bucket of each row (int32[n]). The columns must not have NULL."""
    arrays = [rows.column(rows.schema.get_field_index(name)) for name in keys]
    columns = np.array([_column(array) for array in arrays], np.int64).reshape(len(arrays), len(kernels.FIELDS))
    longest = sum(_longest(array) for array in arrays)
    work = np.zeros(64 + 8 * len(arrays) + longest, np.uint8)
    found = np.empty(rows.num_rows, np.int32)
    kernels.hash_buckets(columns, rows.num_rows, buckets, work.ctypes.data, found)
    return found


def compile_kernel() -> None:
    """Compile the kernel, so that the first batch need not wait for it."""
    bucket_numbers(pa.record_batch([pa.array([1]), pa.array(["a"])], names=["a", "b"]), ["a", "b"], 2)


def _column(array: pa.Array) -> tuple[int, ...]:
    addresses = buffers(array)
    return _form(array.type), addresses.width, addresses.values, addresses.offsets, addresses.bit


def _form(kind: pa.DataType) -> int:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return kernels.TEXT
    if pa.types.is_boolean(kind):
        return kernels.TRUTH
    if pa.types.is_decimal128(kind):
        return kernels.SHORT_DECIMAL if kind.precision <= _LONGEST_COMPACT else kernels.LONG_DECIMAL
    return kernels.MOMENT if pa.types.is_timestamp(kind) else kernels.PLAIN


def _longest(array: pa.Array) -> int:
    """The most bytes that a value takes after the fields of a BinaryRow."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) or not len(array):
        return 16
    return 8 + int(np.diff(string_offsets(array)).max())
