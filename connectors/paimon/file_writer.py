"""Data files of one partition and bucket: the library's file writer, fed with rows that are sorted and numbered here.

The library's class for tables with a key folds rows one Python object at a time. Of a flush only each key's last image
is left when it comes here, so nothing has to be folded: system columns are added, rows are sorted by key, and the class
writes the file, its statistics and its metadata. All rows of a file have one sequence number: a key is in it once.

Sequence numbers order images of a key over files: (batch, partition, flush of the task) in 63 bits, above what the
table held before this pipeline (`base`). They are the same in a replay.
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
    """The number of all rows of one flush, above those that are copied inside of the lake.

    Raises SinkError when there are too many parts or flushes to tell apart.
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
    """Write the files of one flush for one bucket; returns their metadata, `DataFileMeta` of the library.

    Args:
        table: the library's, with options that are for the files (`data-file.prefix`).
        rows: the table's columns, in its order and types; each key once.
        delete: bool[n], rows that are gone; for a table without a key none is.
    """
    return list(written_files(table, partition, bucket, [_with_system_columns(table, rows, delete, sequence)]))


def written_files(table: Any, partition: tuple[Any, ...], bucket: int, pieces: Iterable[pa.Table]) -> Iterator[Any]:
    """Write rows that have their system columns and are sorted by key over all pieces; metadata of the files."""
    writer = _writer(table, partition, bucket)
    for rows in pieces:
        yield from writer.files(rows)
    yield from writer.finish_files()


def _with_system_columns(table: Any, rows: pa.RecordBatch, delete: np.ndarray, sequence: int) -> pa.Table:
    """For a table with a key: key columns, sequence and kind before all columns, sorted by key; else the rows alone."""
    keys: Sequence[str] = table.trimmed_primary_keys
    if not keys:
        return pa.Table.from_batches([rows])
    kinds = np.where(delete, DELETE, INSERT).astype(np.int8)
    fields = [rows.schema.field(name) for name in keys]
    arrays = [rows.column(name) for name in keys]
    columns = [*arrays, pa.array(np.full(rows.num_rows, sequence)), pa.array(kinds), *rows.columns]
    system = [pa.field("_SEQUENCE_NUMBER", pa.int64(), False), pa.field("_VALUE_KIND", pa.int8(), False)]
    named = [pa.field(f"_KEY_{field.name}", field.type, False) for field in fields]
    whole = pa.Table.from_arrays(columns, schema=pa.schema([*named, *system, *rows.schema]))
    by = list(map(ordered, arrays))
    order = pc.sort_indices(pa.table(by, list(map(str, range(len(by))))), _ascending(len(by)))
    return whole.take(order)


def ordered(values: pa.Array) -> pa.Array:
    """The values that keys are sorted and compared by: of floats their bits, -0 is another key and before 0.

    A reader that merges files has them in this order, and takes a key twice from files that have not.
    """
    if not pa.types.is_floating(values.type):
        return values
    kind = np.int32 if values.type == pa.float32() else np.int64
    bits = values.to_numpy(zero_copy_only=False).view(kind)
    return pa.array(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(kind).max))


def _ascending(number: int) -> list[tuple[str, str]]:
    return [(str(place), "ascending") for place in range(number)]


def column_stats(values: Any, library: Any, name: str) -> dict[str, Any]:
    """A column's statistics as the library has them.

    No bounds of long text, which would fill the manifests, nor of a column with NaN: it is the greatest number to some
    readers and none to others. Bounds that are zero have the sign that includes both zeros.
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
    """An object of a class that is made when the library is loaded."""
    global _class
    if _class is None:
        _class = _file_writer_class()
    return _class(table, partition, bucket, 0, options=table.options)


_class: Any = None


def _file_writer_class() -> type:
    from pypaimon.write.writer.data_writer import DataWriter

    class FileWriter(DataWriter):  # type: ignore[misc]
        """Gathers tables until they are a file's worth; writes no file twice."""

        committed_files: list[Any]
        parquet_writer_options: dict[str, Any]

        def files(self, rows: pa.Table) -> list[Any]:
            """Add rows; metadata of the files that are full now."""
            self._buffer.append(rows)
            if self._buffer.nbytes > self.target_file_size:
                self._write_full(last=False)
            return self._take_files()

        def finish_files(self) -> list[Any]:
            """The files of what is left."""
            self._write_full(last=True)
            return self._take_files()

        def _write_full(self, *, last: bool) -> None:
            data = self._buffer.materialize()
            while data is not None and data.num_rows and (last or data.nbytes > self.target_file_size):
                fits = data.num_rows if data.nbytes <= self.target_file_size else self._split_point(data)
                self._write_one(data.slice(0, fits).combine_chunks())
                data = data.slice(fits)
            self._buffer.reset(data if data is not None and data.num_rows else None)

        def _write_one(self, data: pa.Table) -> None:
            """A file says how many of its rows are deletes: a reader takes one without any as it is."""
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
