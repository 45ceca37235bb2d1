"""Prepares rows of a lake for files: filled columns, files synced to disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from cdc.state.durable import sync_file


def fill_nulls(rows: pa.RecordBatch, fill: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Replace NULL in some columns, by name."""
    arrays = [
        array.fill_null(fill[name].cast(array.type)) if name in fill else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def sync_to_disk(path: str) -> None:
    """Sync a lake's local file, and its name, to disk; an object store needs no sync."""
    path = path.removeprefix("file://")
    if "://" not in path:
        sync_file(Path(path))
