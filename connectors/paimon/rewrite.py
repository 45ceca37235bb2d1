"""Rows of the lake written anew: into another table, or into the same one with a column filled. Driver.

Rows stream from the reader into files that no snapshot names; what comes out is the commit messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.errors import ChangeRefused
from connectors.paimon.buckets import groups
from connectors.paimon.columns import as_stored
from connectors.paimon.file_writer import write_files
from connectors.paimon.library import Catalog
from connectors.paimon.rows import read_rows
from connectors.paimon.tables import LakeTable

_FLUSH_BYTES = 64 << 20


def copied(
    catalog: Catalog,
    source: LakeTable,
    target: LakeTable,
    sequence: int,
    prefix: str,
    fill: Mapping[str, pa.Scalar] | None = None,
) -> list[Any]:
    """Messages that hold all rows of `source`, as `target` has them; columns that `source` lacks are NULL.

    Args:
        sequence: of all rows.
        prefix: begins the names of the files.
        fill: values for rows where the column is NULL, by column.
    """
    library = target.library.copy({"data-file.prefix": prefix})
    there = {column.name.casefold() for column in source.columns}
    names = [column.name for column in target.columns if column.name.casefold() in there]
    messages: list[Any] = []
    for rows in _gathered(read_rows(catalog, source, names)):
        stored = as_stored(target.id, _filled(rows, fill or {}), target.columns)
        with catalog.guard(str(target.id)):
            messages += _written(library, target, stored, sequence)
    return messages


def literal(default: str, kind: pa.DataType, column: str, table: LakeTable) -> pa.Scalar | None:
    """A default as a value of the column's type; None for one that is no constant, such as CURRENT_TIMESTAMP.

    Raises ChangeRefused for a constant that the type does not have.
    """
    text: Any = default
    if default[:2].lower() == "b'" and default.endswith("'"):
        text = str(int(default[2:-1] or "0", 2))
    if default.upper().startswith(("CURRENT_", "NOW(", "LOCALTIME", "(", "UUID(")):
        return None
    if pa.types.is_boolean(kind):
        text = {"1": "true", "0": "false"}.get(str(text), text)
    if pa.types.is_binary(kind):
        text = bytes.fromhex(default[2:]) if default[:2].lower() == "0x" else default.encode()
        return pa.scalar(text, kind)
    try:
        return pa.array([text]).cast(kind)[0]
    except pa.ArrowException as error:
        reason = f"rows that are there cannot get the default {default!r} of {column}: {error}"
        raise ChangeRefused(reason, where=str(table.id), hint="`cdc resync` copies the table anew") from error


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a file's worth."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _FLUSH_BYTES:
            yield _one(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one(waiting)


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)


def _filled(rows: pa.RecordBatch, fill: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    arrays = [
        array.fill_null(fill[name]) if name in fill else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _written(library: Any, target: LakeTable, rows: pa.RecordBatch, sequence: int) -> Iterator[Any]:
    from pypaimon.write.commit_message import CommitMessage

    for group in groups(rows, target.partition_keys, target.bucket_keys, target.buckets):
        some = rows if group.rows is None else rows.take(group.rows)
        files = write_files(library, group.partition, group.bucket, some, np.zeros(some.num_rows, bool), sequence)
        yield CommitMessage(partition=group.partition, bucket=group.bucket, new_files=files)
