"""The changes of a flush to send: the last image of each key, or every row of a table without a key.

Keys are compared byte by byte, as the sinks do: `a` and `A` are two rows there even if the source's collation treats
them as equal. A change of the key's spelling is then a delete and an insert, which the log shows too: the images of an
update have the old and the new key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from connectors.shared.kernels.buffers import buffers
from connectors.shared.last_image.kernels.keys import number_keys

DELETE_DROPPED = "delete-dropped"
KEYLESS_SKIPPED = "keyless-change-skipped"


class KeylessChanges(StrEnum):
    """The treatment of updates and deletes of a table without a key, which neither server can express."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, eq=False)
class LastImages:
    """Rows to send, in log order of their last image.

    Attributes:
        table, schema: of the change block.
        rows: record batch of n rows, the schema's columns.
        delete: uint8[n], 1 for a deleted row.
        sequence: int64[n], the log position of each image as in `ChangeBlock.sequence`.
        inserts, updates, deletes: changes in the flush, whatever remains of them.
        counts: skipped changes, by reason.
        position_text: formats a sequence as log position, as in `ChangeBlock.position_text`.
    """

    table: TableId
    schema: TableSchema
    rows: pa.RecordBatch
    delete: np.ndarray
    sequence: np.ndarray
    inserts: int
    updates: int
    deletes: int
    counts: Mapping[str, int]
    position_text: Callable[[int], str] = str


def concat_blocks(blocks: Sequence[ChangeBlock]) -> ChangeBlock:
    """Concatenate blocks of one table and schema, at least one, in the order given."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return ChangeBlock(
        table=first.table,
        schema=first.schema,
        rows=pa.concat_batches([block.rows for block in blocks]),
        kinds=pa.concat_arrays([block.kinds for block in blocks]),
        sequence=pa.concat_arrays([block.sequence for block in blocks]),
        row=pa.concat_arrays([block.row for block in blocks]),
        timestamps_ms=pa.concat_arrays([block.timestamps_ms for block in blocks]),
        position_text=first.position_text,
    )


def images(block: ChangeBlock, keys: Sequence[str], *, deletes: bool = True) -> LastImages:
    """Return the last image of each key. An update that changes the key leaves a delete of the old one and the new row.

    Args:
        block: a flush of one table in log order.
        keys: the source's names of the key columns, at least one.
        deletes: whether deletes are sent; otherwise those rows stay in the sink, and are counted as `DELETE_DROPPED`.

    Raises:
        KeyError: the block lacks such a column.
    """
    kinds = block.kinds.to_numpy(zero_copy_only=False)
    number = np.bincount(kinds, minlength=4)
    gone = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
    counts: dict[str, int] = {}
    if len(block) == 0:
        keep = np.zeros(0, np.int64)
    else:
        groups, total = _groups(block.rows, keys)
        if not deletes:
            counts = _dropped(kinds, groups)
        keep = _last_rows(groups, total, None if deletes else ~gone)
    return _build_images(block, keep, gone, number, counts)


def every_insert(block: ChangeBlock, changes: KeylessChanges) -> LastImages:
    """Return every inserted row in order, for a table without a key.

    Raises:
        SinkError: the flush has an update or a delete, and `changes` is FAIL.
    """
    kinds = block.kinds.to_numpy(zero_copy_only=False)
    number = np.bincount(kinds, minlength=4)
    others = np.flatnonzero((kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_AFTER))
    if len(others) and changes is KeylessChanges.FAIL:
        at = int(others[0])
        what = "a delete" if kinds[at] == RowKind.DELETE else "an update"
        place = block.position_text(int(block.sequence[at].as_py()))
        raise SinkError(
            f"{what} of a table without a key cannot be expressed in the sink",
            where=f"{block.table} at {place}" if place else str(block.table),
            hint="give the table a primary key, or set sink.keyless-changes: skip to leave such changes out, counted",
        )
    counts = {KEYLESS_SKIPPED: len(others)} if len(others) else {}
    return _build_images(block, np.flatnonzero(kinds == RowKind.INSERT), np.zeros(len(kinds), bool), number, counts)


def _build_images(
    block: ChangeBlock, keep: np.ndarray, gone: np.ndarray, number: np.ndarray, counts: Mapping[str, int]
) -> LastImages:
    sequence = block.sequence.to_numpy(zero_copy_only=False)
    whole = len(keep) == len(block)
    return LastImages(
        table=block.table,
        schema=block.schema,
        rows=block.rows if whole else block.rows.take(pa.array(keep)),
        delete=(gone if whole else gone[keep]).astype(np.uint8),
        sequence=sequence if whole else sequence[keep],
        inserts=int(number[RowKind.INSERT]),
        updates=int(number[RowKind.UPDATE_AFTER]),
        deletes=int(number[RowKind.DELETE]),
        counts=counts,
        position_text=block.position_text,
    )


def last_rows(rows: pa.RecordBatch, keys: Sequence[str]) -> np.ndarray:
    """Return int64: the indexes of the last row of each key, in row order. `keys` are names of columns, at least one.

    Raises:
        KeyError: there is no such column.
    """
    if not rows.num_rows:
        return np.zeros(0, np.int64)
    names = {name.lower(): name for name in rows.schema.names}
    groups, total = _groups(rows, [names[key.lower()] for key in keys])
    return _last_rows(groups, total, None)


def _groups(rows: pa.RecordBatch, keys: Sequence[str]) -> tuple[np.ndarray, int]:
    """Return int32[n] key numbers of the rows, and the number of keys."""
    columns = np.zeros((len(keys), 6), np.int64)
    arrays = [rows.column(rows.schema.names.index(name)) for name in keys]
    for line, array in zip(columns, arrays, strict=True):
        place = buffers(array)
        line[:] = place.width, place.values, place.validity, place.validity_bit, place.offsets, place.bit
    size = rows.num_rows
    table = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
    numbers, first = np.empty(size, np.int32), np.empty(size, np.int32)
    return numbers, number_keys(columns, size, table, numbers, first)


def _last_rows(groups: np.ndarray, total: int, allowed: np.ndarray | None) -> np.ndarray:
    """Return int64: the last allowed row of each group, in row order."""
    if allowed is None and total == len(groups):
        return np.arange(total)
    order = np.arange(len(groups)) if allowed is None else np.flatnonzero(allowed)
    last = np.full(total, -1, np.int64)
    last[groups[order]] = order
    return np.sort(last[last >= 0])


def _dropped(kinds: np.ndarray, groups: np.ndarray) -> dict[str, int]:
    """Count skipped deletes: those of the log, and old keys of updates that change the key."""
    before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
    paired = before[before + 1 < len(kinds)]
    moved = int((groups[paired] != groups[paired + 1]).sum())
    dropped = int((kinds == RowKind.DELETE).sum()) + moved
    return {DELETE_DROPPED: dropped} if dropped else {}
