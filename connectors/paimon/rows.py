"""Read the rows of tables with the Rust package: merged, bucket by bucket, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from cdc.evolution.steps import Check, KeyCheck
from cdc.types import certain
from connectors.paimon.library import Catalog, native
from connectors.paimon.tables import LakeTable
from connectors.shared.lake.keys import quoted
from connectors.shared.lake.queries import connection


def read_rows(
    catalog: Catalog, table: LakeTable, names: Sequence[str], *, predicate: Mapping[str, Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read all rows of the newest snapshot, split by split; with a key, the rows of a split come in key order.

    Args:
        names: the columns, in the wanted order.
        predicate: a filter of the Rust package; rows that do not match may still come.
    """
    with catalog.guard(str(table.id)):
        builder = native(table.library).new_read_builder().with_projection(list(names))
        if predicate is not None:
            builder = builder.with_filter(dict(predicate))
        splits = builder.new_scan().plan().splits()
        reader = builder.new_read()
    for split in splits:
        yield from _of_split(catalog, table, reader, split, names)


def _of_split(
    catalog: Catalog, table: LakeTable, reader: Any, split: Any, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with catalog.guard(str(table.id)):
        batches = iter(reader.read_arrow([split]))
    while True:
        with catalog.guard(str(table.id)):
            found = next(batches, None)
        if found is None:
            return
        if found.num_rows:
            yield plain(found.select(list(names)))


def plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the types that are written, without the metadata of Parquet's fields."""
    arrays = [_plain(array) for array in rows.columns]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return array.cast(pa.binary())
    if pa.types.is_timestamp(kind) and (kind.unit != "us" or kind.tz not in (None, "UTC")):
        return array.cast(pa.timestamp("us", None if kind.tz is None else "UTC"))
    if pa.types.is_list(kind) and kind != pa.list_(pa.float32()):
        return array.cast(pa.list_(pa.float32()))
    return array


def has_rows(catalog: Catalog, table: LakeTable, check: Check | KeyCheck) -> bool:
    """Whether the table has a row that forbids a change; DuckDB checks values batch by batch, and reads keys once."""
    if isinstance(check, KeyCheck):
        return _shares_key(read_rows(catalog, table, check.key), check.key)
    condition = certain.condition(quoted(check.column), check.rows)
    for rows in read_rows(catalog, table, [column.name for column in table.columns]):
        with connection() as duck:
            duck.register("cdc_rows", pa.Table.from_batches([rows]))
            if duck.execute(f"SELECT 1 FROM cdc_rows WHERE {condition} LIMIT 1").fetchall():
                return True
    return False


def _shares_key(rows: Iterator[pa.RecordBatch], key: Sequence[str]) -> bool:
    first = next(rows, None)
    if first is None:
        return False
    names = ", ".join(quoted(name) for name in key)
    with connection() as duck:
        duck.register("cdc_rows", pa.RecordBatchReader.from_batches(first.schema, chain([first], rows)))
        query = f"SELECT 1 FROM cdc_rows GROUP BY {names} HAVING COUNT(*) > 1 LIMIT 1"
        return bool(duck.execute(query).fetchall())
