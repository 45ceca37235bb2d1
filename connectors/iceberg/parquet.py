"""Read and write Parquet files of rows and of deleted positions, and files of keys. Used in executors and driver.

Each position delete file is for one data file, whose path is both bounds of the path column: so readers open it for
that file only, and other engines' compaction can tell which file it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.iceberg.manifest_cache import PATH_ID
from connectors.shared.lake.columns import has_nan, repeating_columns
from connectors.shared.lake.keys import key_names
from connectors.shared.lake.rewrite import sync_to_disk

POS_ID = 2147483545
"""The field id that the format reserves for the positions of deletes ("Reserved Field IDs")."""
_ROWS_A_GROUP = 1 << 20
_FEW_BYTES = 64 << 10
"""The size up to which threads and compression cost more than they save."""
_MOST_FORMS = 2_000
_DAY_US = 86_400_000_000
_YEAR_1, _YEAR_10000 = -719_162, 2_932_897
"""The days since 1970 on which the years begin."""
_METRICS = "write.metadata.metrics."
"""Prefix of the table properties that choose the statistics in its files."""
_DELETES = pa.schema([
    pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
    pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POS_ID)}),
])  # fmt: skip


class RowsFile:
    """A data file that is being written, a context that closes it. `table` is the library's."""

    def __init__(self, table: Any, path: str, partition: Any) -> None:
        self._table, self._path, self._partition = table, path, partition
        self._form = _form(table)
        self._open = ExitStack()
        self._stream = self._open.enter_context(table.io.new_output(path).create(overwrite=True))
        self._writer: pq.ParquetWriter | None = None
        self._bounded: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @property
    def size_bytes(self) -> int:
        """The size of the file so far."""
        return int(self._stream.tell())

    def takes(self, rows: pa.RecordBatch) -> bool:
        """Whether more rows can be written: none without bounds where those before have some, see `_is_unbounded`."""
        return not any(_is_unbounded(rows.column(name)) for name in rows.schema.names if name in self._bounded)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, with columns in the table's order."""
        fitted = pa.Table.from_batches([rows]).cast(self._form.schema)
        if self._writer is None:
            self._bounded = set(_with_statistics(fitted))
            statistics = len(self._bounded) == fitted.num_columns or [*self._bounded]
            self._writer = self._open.enter_context(_open_writer(self._stream, fitted, statistics))
        self._writer.write_table(fitted, row_group_size=_ROWS_A_GROUP)

    def close(self) -> Any:
        """Complete the file, in which rows were written; return the library's `DataFile`."""
        from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

        assert self._writer is not None, "a file has rows"
        self._writer.close()
        size = self.size_bytes
        self._open.close()
        sync_to_disk(self._path)
        statistics = data_file_statistics_from_parquet_metadata(
            self._writer.writer.metadata, self._form.statistics, self._form.columns
        )
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._path,
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            file_size_in_bytes=size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        data_file.spec_id = self._table.metadata.default_spec_id
        return data_file


def write_rows(table: Any, path: str, rows: pa.RecordBatch, partition: Any) -> Any:
    """Write a file of the rows, with columns in the table's order; return the library's `DataFile`."""
    with RowsFile(table, path, partition) as file:
        file.write(rows)
        return file.close()


@dataclass(frozen=True, slots=True)
class _Form:
    """The columns of a table's data files: their Arrow schema, and the library's plan and map for statistics."""

    schema: pa.Schema
    statistics: Any
    columns: Any


def _form(table: Any) -> _Form:
    """The form of the table's present schema, cached because it is much of the cost of writing a small file."""
    from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping, schema_to_pyarrow

    schema, properties = table.schema(), table.metadata.properties
    metrics = tuple(sorted((name, text) for name, text in properties.items() if name.startswith(_METRICS)))
    key = (str(table.metadata.table_uuid), schema.schema_id, metrics)
    found = _forms.get(key)
    if found is None:
        if len(_forms) > _MOST_FORMS:
            _forms.clear()
        fields = [field.with_type(_plain(field.type)) for field in schema_to_pyarrow(schema)]
        plan, columns = compute_statistics_plan(schema, properties), parquet_path_to_id_mapping(schema)
        found = _forms[key] = _Form(pa.schema(fields), plan, columns)
    return found


_forms: dict[tuple[str, int, tuple[tuple[str, str], ...]], _Form] = {}


def write_deletes(table: Any, path: str, data_file: Any, positions: np.ndarray) -> Any:
    """Write the deleted positions (int64[n], ascending) of one data file; return the library's `DataFile`."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    target = data_file.file_path
    rows = pa.table([pa.repeat(pa.scalar(target), len(positions)), pa.array(positions, pa.int64())], schema=_DELETES)
    with table.io.new_output(path).create(overwrite=True) as stream:
        with _open_writer(stream, rows, True) as writer:
            writer.write_table(rows, row_group_size=_ROWS_A_GROUP)
        size = int(stream.tell())
    sync_to_disk(path)
    bound = {PATH_ID: target.encode()}
    delete_file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=data_file.partition,
        record_count=len(positions),
        file_size_in_bytes=size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds=bound,
        upper_bounds=bound,
        split_offsets=None,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
    )
    delete_file.spec_id = data_file.spec_id
    return delete_file


def read_columns(io: Any, path: str, fields: Sequence[Any]) -> pa.Table:
    """Read columns of a data file by field id, with the present names and types of the library's `fields`.

    A column that the file lacks is NULL.
    """
    with io.new_input(path).open() as stream:
        file = pq.ParquetFile(stream)
        present = _present(file, fields)
        count = file.metadata.num_rows
        rows = file.read(columns=[*present.values()], use_threads=count * len(present) > _FEW_BYTES)
        return _with_fields(rows, count, fields, present)


def read_row_groups(io: Any, path: str, fields: Sequence[Any]) -> Iterator[pa.Table]:
    """Read columns of a data file as `read_columns`, one row group at a time: a file may be larger than the memory."""
    with io.new_input(path).open() as stream:
        file = pq.ParquetFile(stream)
        present = _present(file, fields)
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            threads = count * len(present) > _FEW_BYTES
            rows = file.read_row_group(group, columns=[*present.values()], use_threads=threads)
            yield _with_fields(rows, count, fields, present)


def _present(file: pq.ParquetFile, fields: Sequence[Any]) -> dict[int, str]:
    """The names in the file of the fields that it has, by field id."""
    by_id = {int((field.metadata or {}).get(b"PARQUET:field_id", -1)): field.name for field in file.schema_arrow}
    return {field.field_id: by_id[field.field_id] for field in fields if field.field_id in by_id}


def _with_fields(rows: pa.Table, count: int, fields: Sequence[Any], present: dict[int, str]) -> pa.Table:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    columns = []
    for field in fields:
        kind, name = _plain(schema_to_pyarrow(field.field_type)), present.get(field.field_id)
        columns.append(pa.nulls(count, kind) if name is None else rows[name].cast(kind))
    return pa.table(columns, names=[field.name for field in fields])


def read_deletes(io: Any, path: str) -> pa.Table:
    """Read the columns `file_path` and `pos` of a position delete file."""
    with io.new_input(path).open() as stream:
        return pq.ParquetFile(stream).read(columns=["file_path", "pos"], use_threads=False)


def keys_file(keys: pa.Table) -> bytes:
    """The bytes of a file with the keys of a flush."""
    sink = pa.BufferOutputStream()
    compression = None if keys.nbytes < _FEW_BYTES else "zstd"
    with pa.ipc.new_file(sink, keys.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(keys)
    return bytes(sink.getvalue())


def write_bytes(io: Any, path: str, data: bytes) -> None:
    """Write a file."""
    with io.new_output(path).create(overwrite=True) as stream:
        stream.write(data)
    sync_to_disk(path)


def read_keys(io: Any, data: bytes, path: str) -> pa.Table:
    """Read the keys of a flush from these bytes, or from the file when they are empty: `key_names`, `file`, `pos`."""
    if not data:
        with io.new_input(path).open() as stream:
            data = stream.read()
    options = pa.ipc.IpcReadOptions(use_threads=len(data) > _FEW_BYTES)
    found = pa.ipc.open_file(pa.py_buffer(data), options=options).read_all()
    return found.rename_columns([*key_names(found.num_columns - 2), "file", "pos"])


def _open_writer(stream: Any, rows: pa.Table, statistics: bool | list[str]) -> pq.ParquetWriter:
    """A writer for these rows, and more of the kind."""
    return pq.ParquetWriter(
        stream, rows.schema, compression="zstd", store_schema=False, write_statistics=statistics,
        use_dictionary=repeating_columns(rows),
    )  # fmt: skip


def _with_statistics(rows: pa.Table) -> list[str]:
    """The columns that get statistics."""
    return [name for name in rows.schema.names if not _is_unbounded(rows[name])]


def _is_unbounded(values: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column gets no bounds.

    The format's bounds ignore NaN, so a reader that takes NaN for the greatest number (DuckDB) would skip rows. And the
    library has no bounds beyond the years 1 to 9999.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return has_nan(values)
    if not (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        return False
    day = 1 if pa.types.is_date32(kind) else _DAY_US
    found = pc.min_max(values).values()
    return any(edge.is_valid and not _YEAR_1 * day <= edge.value < _YEAR_10000 * day for edge in found)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets, which the rows of blocks have."""
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field)
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
