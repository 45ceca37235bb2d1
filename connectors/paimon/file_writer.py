"""Write the data files of one partition and bucket with the library's file writer; rows are sorted and numbered here.

The library's class for tables with a key merges rows one Python object at a time. Here a flush has only the last row of
each key, so nothing has to be merged: the system columns are added, the rows are sorted by key, and the class writes
the file, its statistics and its metadata. All rows of a file have one sequence number, since no key is in it twice.

Sequence numbers order the rows of a key across files: they combine (batch, partition, flush of the task) in 63 bits,
above all numbers that the table had before this pipeline (`base`). A replay gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from connectors.shared.lake.columns import has_nan, repeating_columns

INSERT, DELETE = 0, 3
_BOUNDS = ("min_values", "max_values")
_LONGEST_STATS = 64
_PARTITION_BITS = _FLUSH_BITS = 16


def sequence_number(base: int, batch: int, partition: int, flush: int) -> int:
    """The sequence number of all rows in one flush, above those of rows that are copied within the lake.

    Raises SinkError when there are more parts or flushes than the number has bits for.
    """
    if partition >= 1 << _PARTITION_BITS or flush >= 1 << _FLUSH_BITS or batch >= 1 << 30:
        raise SinkError(
            f"batch {batch}, part {partition}, flush {flush} cannot be numbered",
            hint="a larger sink.flush-size makes fewer flushes of a batch",
        )
    return base + (batch + 1 << _PARTITION_BITS + _FLUSH_BITS | partition << _FLUSH_BITS | flush)


def write_files(
    table: Any, partition: tuple[Any, ...], bucket: int, rows: pa.RecordBatch, delete: np.ndarray, sequence: int
) -> list[Any]:
    """Write the files of one flush for one bucket, and return their metadata (the library's `DataFileMeta`).

    Args:
        table: the library's table, with options for the files (`data-file.prefix`).
        rows: rows with the table's columns in its order and types; each key once.
        delete: marks deleted rows (bool[n]); none for a table without a key.
    """
    return list(written_files(table, partition, bucket, [_with_system_columns(table, rows, delete, sequence)]))


def written_files(table: Any, partition: tuple[Any, ...], bucket: int, pieces: Iterable[pa.Table]) -> Iterator[Any]:
    """Write rows that have system columns and are sorted by key across all pieces; gives the metadata of the files."""
    writer = _writer(table, partition, bucket)
    for rows in pieces:
        yield from writer.files(rows)
    yield from writer.finish_files()


def _with_system_columns(table: Any, rows: pa.RecordBatch, delete: np.ndarray, sequence: int) -> pa.Table:
    """The rows sorted by key, with key columns, sequence and kind before the others; unchanged if there is no key."""
    keys: Sequence[str] = table.trimmed_primary_keys
    if not keys:
        return pa.Table.from_batches([rows])
    kinds = np.where(delete, DELETE, INSERT).astype(np.int8)
    fields = [rows.schema.field(name) for name in keys]
    arrays = [rows.column(name) for name in keys]
    columns = [*arrays, pa.array(np.full(rows.num_rows, sequence)), pa.array(kinds), *rows.columns]
    system = [pa.field("_SEQUENCE_NUMBER", pa.int64(), False), pa.field("_VALUE_KIND", pa.int8(), False)]
    named = [pa.field(f"_KEY_{field.name}", field.type, False) for field in fields]
    combined = pa.Table.from_arrays(columns, schema=pa.schema([*named, *system, *rows.schema]))
    by = list(map(ordered, arrays))
    names = list(map(str, range(len(by))))
    order = pc.sort_indices(pa.table(by, names), [(name, "ascending") for name in names])
    return combined.take(order)


def ordered(values: pa.Array) -> pa.Array:
    """The values by which keys are sorted and compared: the bits of floats, so that -0 is another key, before 0.

    Readers that merge files expect this order; from files in another order they would give a key twice.
    """
    if not pa.types.is_floating(values.type):
        return values
    kind = np.int32 if values.type == pa.float32() else np.int64
    bits = values.to_numpy(zero_copy_only=False).view(kind)
    return pa.array(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(kind).max))


def column_stats(values: Any, library: Any, name: str) -> dict[str, Any]:
    """The statistics of a column, in the library's form.

    There are no bounds for long text, which would fill the manifests, or for a column with NaN, which some readers
    take for the greatest number and others for none. A bound of zero has the sign that includes both zeros.
    """
    found: dict[str, Any] = library(pa.table({name: values}), name)
    if pa.types.is_floating(values.type):
        if has_nan(values):
            return found | dict.fromkeys(_BOUNDS)
        zeros = zip(_BOUNDS, (-0.0, 0.0), strict=True)
        found |= {bound: zero for bound, zero in zeros if found[bound] == 0}
    if any(isinstance(found[key], str | bytes) and len(found[key]) > _LONGEST_STATS for key in _BOUNDS):
        found |= dict.fromkeys(_BOUNDS)
    return found


def _writer(table: Any, partition: tuple[Any, ...], bucket: int) -> Any:
    """An object of the class that is defined once the library is loaded."""
    global _class
    if _class is None:
        _class = _file_writer_class()
    return _class(table, partition, bucket, 0, options=table.options)


_class: Any = None


def _file_writer_class() -> type:
    from pypaimon.write.writer.data_writer import DataWriter

    class FileWriter(DataWriter):  # type: ignore[misc]
        """Collects rows until there are enough for a file, and writes each file once."""

        committed_files: list[Any]
        parquet_writer_options: dict[str, Any]

        def files(self, rows: pa.Table) -> list[Any]:
            """Add rows, and return the metadata of the files that this completed."""
            self._buffer.append(rows)
            if self._buffer.nbytes > self.target_file_size:
                self._write_full(last=False)
            return self._take_files()

        def finish_files(self) -> list[Any]:
            """Write the remaining rows, and return the metadata of their files."""
            self._write_full(last=True)
            return self._take_files()

        def _write_full(self, *, last: bool) -> None:
            data = self._buffer.materialize()
            while data is not None and data.num_rows and (last or data.nbytes > self.target_file_size):
                row_count = data.num_rows if data.nbytes <= self.target_file_size else self._split_point(data)
                self._write_one(data.slice(0, row_count).combine_chunks())
                data = data.slice(row_count)
            self._buffer.reset(data if data is not None and data.num_rows else None)

        def _write_one(self, data: pa.Table) -> None:
            """Write a file with the number of its deletes: readers need not filter a file that has none."""
            self.parquet_writer_options = {**self.parquet_writer_options, "use_dictionary": repeating_columns(data)}
            self._write_data_to_file(data)
            if "_VALUE_KIND" in data.schema.names:
                deletes = pc.sum(pc.equal(data.column("_VALUE_KIND"), DELETE)).as_py()
                self.committed_files[-1] = replace(self.committed_files[-1], delete_row_count=deletes)

        def _split_point(self, data: pa.Table) -> int:
            return max(1, int(self._find_optimal_split_point(data, self.target_file_size)))

        def _take_files(self) -> list[Any]:
            done: list[Any] = self.committed_files
            self.committed_files = []
            return done

        @staticmethod
        def _get_column_stats(record_batch: pa.Table, column_name: str) -> dict[str, Any]:
            return column_stats(record_batch.column(column_name), DataWriter._get_column_stats, column_name)

        def _process_data(self, data: Any) -> Any:
            return data

        def _merge_data(self, existing_data: pa.Table, new_data: pa.Table) -> pa.Table:
            return pa.concat_tables([existing_data, new_data])

    return FileWriter
