"""Rewrite rows of the lake: into another table, or into the same one with a column filled. Runs in the driver.

Rows stream from the reader into files that no snapshot names yet; the result is the commit messages for those files.
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
from connectors.shared.batches import gather_batches
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import fill_nulls

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
    """Write all rows of `source` in the form of `target`, and return the messages; missing columns are NULL.

    Args:
        sequence: the sequence number of all rows.
        prefix: the prefix of the files' names.
        fill: by column, the value that replaces NULL.
        empty: columns to set to NULL in all rows.
    """
    library = target.library.copy({"data-file.prefix": prefix})
    present = {column.name.casefold() for column in source.columns} - {name.casefold() for name in empty}
    names = [column.name for column in target.columns if column.name.casefold() in present]
    messages: list[Any] = []
    for rows in gather_batches(read_rows(catalog, source, names), _FLUSH_BYTES):
        stored = as_stored(target.id, _rounded(fill_nulls(rows, fill or {}), target), target.columns)
        with catalog.guard(str(target.id)):
            messages += _write_groups(library, target, stored, sequence)
    return messages


def _rounded(rows: pa.RecordBatch, target: LakeTable) -> pa.RecordBatch:
    """The rows with integers that become DOUBLE rounded to the nearest double, as every server does."""
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
