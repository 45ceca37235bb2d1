"""Rows of the lake rewritten: into another table, or into the same one with a column filled. Driver.

Rows stream from the reader into files that no snapshot names; what comes out is the commit messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.paimon.buckets import groups
from connectors.paimon.file_writer import write_files
from connectors.paimon.library import Catalog
from connectors.paimon.rows import read_rows
from connectors.paimon.tables import LakeTable
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import fill_nulls, gather_batches

_FLUSH_BYTES = 64 << 20


def copy_rows(
    catalog: Catalog,
    source: LakeTable,
    target: LakeTable,
    sequence: int,
    prefix: str,
    fill: Mapping[str, pa.Scalar] | None = None,
    empty: Sequence[str] = (),
) -> list[Any]:
    """Messages that hold all rows of `source`, as `target` has them; columns that `source` lacks are NULL.

    Args:
        sequence: of all rows.
        prefix: begins the names of the files.
        fill: values for rows where the column is NULL, by column.
        empty: columns that are NULL in all rows.
    """
    library = target.library.copy({"data-file.prefix": prefix})
    there = {column.name.casefold() for column in source.columns} - {name.casefold() for name in empty}
    names = [column.name for column in target.columns if column.name.casefold() in there]
    messages: list[Any] = []
    for rows in gather_batches(read_rows(catalog, source, names), _FLUSH_BYTES):
        stored = as_stored(target.id, _rounded(fill_nulls(rows, fill or {}), target), target.columns)
        with catalog.guard(str(target.id)):
            messages += _write_groups(library, target, stored, sequence)
    return messages


def _rounded(rows: pa.RecordBatch, target: LakeTable) -> pa.RecordBatch:
    """Integers that become DOUBLE, as every server makes them: the nearest one."""
    doubles = {column.name.casefold() for column in target.columns if column.arrow == pa.float64()}
    arrays = [
        pc.cast(array, pa.float64(), safe=False)
        if name.casefold() in doubles and pa.types.is_integer(array.type)
        else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _write_groups(library: Any, target: LakeTable, rows: pa.RecordBatch, sequence: int) -> Iterator[Any]:
    from pypaimon.write.commit_message import CommitMessage

    for group in groups(rows, target.partition_keys, target.bucket_keys, target.buckets):
        some = rows if group.rows is None else rows.take(group.rows)
        files = write_files(library, group.partition, group.bucket, some, np.zeros(some.num_rows, bool), sequence)
        yield CommitMessage(partition=group.partition, bucket=group.bucket, new_files=files)
