"""Turn groups of row images into change blocks, once the schema of their table is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, arrow_schema
from cdc.errors import SchemaUnknown
from cdc.schema import Column, TableSchema
from connectors.kafka.formats.convert import BadValue
from connectors.kafka.formats.fields import Field, decoded, present
from connectors.kafka.formats.groups import AFTER, BEFORE, DELETE, INSERT, MessageImages, TableGroup
from connectors.kafka.formats.scan import Cells, Tree

Count = Callable[[str, int], None]


@lru_cache(maxsize=1024)
def row_tree(names: tuple[str, ...]) -> Tree:
    """The tree that finds the columns in rows."""
    return Tree(dict.fromkeys(names))


class Columns:
    """The values of columns in images; a member of `changed` takes precedence over that of the row."""

    def __init__(self, images: MessageImages, names: tuple[str, ...]) -> None:
        tree = row_tree(names)
        self.rows = tree.scan(images.rows)
        self._changed = None if images.changed is None else tree.scan(images.changed)

    def cells(self, name: str) -> Cells:
        """The values of one column."""
        found = self.rows.cells(name)
        if self._changed is None:
            return found
        changed = self._changed.cells(name)
        return Cells.either(present(changed), changed, found)

    @property
    def faults(self) -> Any:
        """The images that are not JSON objects (bool[n])."""
        return self.rows.faults != 0

    @property
    def unknown(self) -> Any:
        """The images that have a further member with a value (bool[n])."""
        return self.rows.unknown >= 0


RowCheck = Callable[["Columns", MessageImages], Mapping[int, str]]
"""For messages that do not describe their columns: the images that cannot be rows of the table, with the reason."""


def block_of(
    group: TableGroup,
    schema: TableSchema,
    natural: Callable[[Column], Field],
    sequences: Any,
    count: Count,
    check: RowCheck,
) -> tuple[ChangeBlock, dict[int, str]]:
    """The block of a group, and the messages omitted because a value cannot be read, with the reason.

    `schema` is that of the table, and has at least the group's columns. `natural` gives the fields of columns that the
    messages do not describe. `sequences` are int64 by the message's number. `count` takes remarks with table and
    column. Raises SchemaUnknown for a further column.
    """
    images, left_out = _expressible(group, schema)
    fields = {item.name: item for item in group.fields} if group.fields is not None else None
    while True:
        columns = Columns(images, schema.names)
        if columns.faults.any():
            images = _without(images, columns.faults, left_out, "a row that is not a JSON object")
            continue
        if group.fields is None:
            refused = check(columns, images)
            if refused:
                reason = next(iter(refused.values()))
                same_reason = [number for number, other in refused.items() if other == reason]
                images = _without(images, np.isin(np.arange(len(images)), same_reason), left_out, reason)
                continue
        _check_columns(group, schema, columns)
        if columns.unknown.any():
            reason = "a row with a member that its description does not have"
            images = _without(images, columns.unknown, left_out, reason)
            continue
        counts: dict[str, int] = {}
        try:
            arrays = [_column(columns, column, fields, natural, counts, group) for column in schema.columns]
        except _BadColumn as error:
            bad = np.zeros(len(images), np.bool_)
            bad[error.row] = True  # a wrong row must raise IndexError, or decoding would be repeated for ever
            images = _without(images, bad, left_out, str(error))
            continue
        empty = _without_key(schema, arrays)
        if empty is not None:
            reason = (
                "a row without a value for each key column (see primary-keys; PostgreSQL's old rows have them with "
                "REPLICA IDENTITY FULL, not USING INDEX)"
            )
            images = _without(images, empty, left_out, reason)
            continue
        for reason, number in counts.items():
            count(reason, number)
        return _block(group, schema, images, arrays, sequences), left_out


def _without_key(schema: TableSchema, arrays: list[pa.Array]) -> Any:
    """The rows with NULL in the key (bool[n]); None when there are none."""
    parts = [array for column, array in zip(schema.columns, arrays, strict=True) if column.name in schema.primary_key]
    if not any(array.null_count for array in parts):
        return None
    return np.any([np.asarray(array.is_null()) for array in parts], axis=0)


def _without(images: MessageImages, bad: Any, left_out: dict[int, str], reason: str) -> MessageImages:
    """The images without all those of messages that have a bad image."""
    messages = np.unique(images.messages[bad])
    left_out.update(dict.fromkeys(messages.tolist(), reason))
    return images.part(~np.isin(images.messages, messages))


def _expressible(group: TableGroup, schema: TableSchema) -> tuple[MessageImages, dict[int, str]]:
    """The images that can be expressed in a table without a key, where an upsert counts as an insert."""
    images, left_out = group.images, dict[int, str]()
    if schema.primary_key:
        return images, left_out
    kinds = images.kinds
    paired = np.roll(kinds == BEFORE, 1) & (images.rows_in_message > 0)
    unpaired = (kinds == AFTER) & ~paired
    if group.upserts:
        images = replace(images, kinds=np.where(unpaired, INSERT, kinds).astype(np.uint8))
        reason = "a delete by key, of a table without a key (see primary-keys)"
        return _without(images, kinds == DELETE, left_out, reason), left_out
    return _without(images, unpaired, left_out, "an update without the row before, of a table without a key"), left_out


def _check_columns(group: TableGroup, schema: TableSchema, columns: Columns) -> None:
    names = set(schema.names)
    if group.fields is not None:
        unknown = [item.name for item in group.fields if item.name not in names]
    else:
        unknown = ["(see the first message of the batch)"] if columns.unknown.any() else []
    if unknown:
        raise SchemaUnknown(
            f"the column {unknown[0]} was not there when the batch was planned",
            where=str(group.table),
            hint="the topic has changed since: start over with an empty state directory",
        )


class _BadColumn(ValueError):
    def __init__(self, column: str, error: BadValue) -> None:
        super().__init__(f"column {column}: {error}")
        self.row = error.row


def _column(
    columns: Columns,
    column: Column,
    fields: Mapping[str, Field] | None,
    natural: Callable[[Column], Field],
    counts: dict[str, int],
    group: TableGroup,
) -> pa.Array:
    field = None if fields is None else fields.get(column.name)
    if field is None or not field.typed:
        field = replace(natural(column), becomes=column.type)

    def count(reason: str, number: int) -> None:
        name = f"{reason} {group.table}.{column.name}"
        counts[name] = counts.get(name, 0) + number

    try:
        return decoded(field, columns.cells(column.name), column.type, count)
    except BadValue as error:
        raise _BadColumn(column.name, error) from error


def _block(
    group: TableGroup, schema: TableSchema, images: MessageImages, arrays: list[pa.Array], sequences: Any
) -> ChangeBlock:
    rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))
    return ChangeBlock(
        group.table, schema, rows,
        kinds=pa.array(images.kinds, pa.uint8()),
        sequence=pa.array(sequences[images.messages], pa.int64()),
        row=pa.array(np.asarray(images.rows_in_message, np.int32), pa.int32()),
        timestamps_ms=pa.array(images.times_ms, pa.int64()),
        whole=False,
    )  # fmt: skip
