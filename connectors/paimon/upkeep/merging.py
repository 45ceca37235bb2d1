"""Read files of a bucket, merge them, and write new ones. Runs in the driver.

Files are read as Parquet with the system columns, so each row keeps its sequence number, and deletes are kept as long
as older files remain that may have the deleted rows. A file has the columns of the schema with which it was written;
they are found by their field ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.paimon.file_writer import DELETE, ordered, written_files
from connectors.paimon.rows import plain
from connectors.paimon.tables import LakeTable
from connectors.paimon.types import arrow_type
from connectors.shared.lake.columns import converted

SEQUENCE, KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
_PIECE_ROWS, _PIECE_BYTES = 1 << 20, 64 << 20
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
"""Texts and bytes of one array are at most 2 GiB, which those of a merge may exceed."""


def merge_files(
    table: LakeTable, entry: Any, files: Sequence[Any], prefix: str, *, level: int, last: bool
) -> list[Any]:
    """Write the newest row of each key in these files into new files, and return the metadata of those.

    Args:
        entry: a manifest entry of the bucket, which tells the partition.
        files: the files, oldest first; among rows with the same sequence number, that of the later file counts.
        last: whether the bucket has no older files, so that deletes can be left out.
    """
    rows = pa.concat_tables([_read(table, entry, file) for file in files])
    library = table.library.copy({"data-file.prefix": prefix, **_file_size(table, rows, files)})
    schema = rows.schema
    rows = rows.cast(pa.schema([field.with_type(_LARGE.get(field.type, field.type)) for field in schema]))
    if table.key:
        rows = _newest(rows, [f"_KEY_{name}" for name in table.library.trimmed_primary_keys])
        if last:
            rows = rows.filter(pc.not_equal(rows.column(KIND), DELETE))
    pieces = (_copied(piece).cast(schema) for piece in _pieces(rows))
    merged = written_files(library, tuple(entry.partition.values), entry.bucket, pieces)
    return [replace(file, level=level if table.key else 0, file_source=1) for file in merged]


def _file_size(table: LakeTable, rows: pa.Table, files: Sequence[Any]) -> dict[str, str]:
    """The option for files of the table's target size: the library compares it with the rows' size in memory."""
    stored = sum(file.file_size for file in files)
    target = table.library.options.target_file_size(bool(table.key))
    return {"target-file-size": f"{max(target, target * rows.nbytes // max(1, stored))} b"}


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in pieces, limited in rows and bytes; a piece may be one row."""
    if rows.num_rows > 1 and (rows.num_rows > _PIECE_ROWS or rows.nbytes > _PIECE_BYTES):
        half = rows.num_rows // 2
        yield from _pieces(rows.slice(0, half))
        yield from _pieces(rows.slice(half))
    elif rows.num_rows:
        yield rows


def _copied(rows: pa.Table) -> pa.Table:
    """The same rows with memory of their own: the offsets of a slice of long texts are beyond 2 GiB."""
    return pa.Table.from_batches(batch.take(pa.array(np.arange(batch.num_rows))) for batch in rows.to_batches())


def _newest(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key, sorted by key."""
    order = [ordered(rows.column(name).combine_chunks()) for name in keys]
    names = [str(index) for index in range(len(keys))]
    numbered = pa.table([*order, rows.column(SEQUENCE), pa.array(np.arange(rows.num_rows))], [*names, "s", "n"])
    indices = pc.sort_indices(numbered, [(name, "ascending") for name in (*names, "s", "n")])
    rows = rows.take(indices)
    if rows.num_rows < 2:
        return rows
    ends = np.zeros(rows.num_rows, bool)
    ends[-1] = True
    for column in (values.take(indices) for values in order):
        ends[:-1] |= ~pc.equal(column[:-1], column[1:]).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(ends))


def _read(table: LakeTable, entry: Any, file: Any) -> pa.Table:
    """Read a file's rows with the columns of the present schema, and the system columns if the table has a key."""
    from pypaimon.utils.file_store_path_factory import canonical_data_file_path

    partition = tuple(entry.partition.values)
    path = file.external_path or canonical_data_file_path(table.library, partition, entry.bucket, file.file_name)
    with table.library.file_io.new_input_stream(path) as stream:
        rows = pq.read_table(stream)
    rows = pa.Table.from_batches([plain(batch) for batch in rows.to_batches()] or [plain(_empty(rows))])
    old = {field.id: field.name for field in table.library.schema_manager.get_schema(file.schema_id).fields}
    arrays, fields = [], []
    for name, source, kind in _columns_to_read(table, old):
        values = pa.nulls(rows.num_rows, kind) if source is None else rows.column(source)
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        arrays.append(pa.chunked_array([converted(chunk, kind) for chunk in chunks], kind))
        fields.append(pa.field(name, kind, not name.startswith("_") and name not in table.key))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _columns_to_read(table: LakeTable, old: dict[int, str]) -> Iterator[tuple[str, str | None, pa.DataType]]:
    """Name, name in the file (None if the file lacks the column), and type of each column."""
    types = {column.name: arrow_type(column.type) for column in table.columns}
    ids = {field.name: field.id for field in table.library.fields}
    if table.key:
        for name in table.library.trimmed_primary_keys:
            yield f"_KEY_{name}", f"_KEY_{old[ids[name]]}", types[name]
        yield SEQUENCE, SEQUENCE, pa.int64()
        yield KIND, KIND, pa.int8()
    for name, kind in types.items():
        yield name, old.get(ids[name]), kind


def _empty(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
