"""Rules on changes without a complete old row: a delete with the key only, a new row without the old one.

Kafka messages can be like that. A filter cannot decide whether the row is in the sink: rows it rejects are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.errors import TransformError
from cdc.transform.computation import Computation
from cdc.transform.typed import columns

Numbers = npt.NDArray[np.int64]
_ADDED = "__"
"""Prefix of columns that Debezium adds to rows, such as `__deleted`: they have values even in a row with only its key.
"""


def first_images(kinds: npt.NDArray[np.uint8], sequence: Numbers) -> npt.NDArray[np.bool_]:
    """Return the before images that are followed by the after image of the same update, bool[n - 1]."""
    updates = (kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER)
    return np.asarray(updates & (sequence[:-1] == sequence[1:]))


def _old_images(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return np.asarray((kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE))


def undecided_rows(compiled: Computation, block: ChangeBlock, passed: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows that do not pass though they may be in the sink: images with the key only, and new rows without
    the old row."""
    none = np.zeros(0, np.int64)
    read = set() if compiled.condition is None else set(columns(compiled.condition))
    key = block.schema.primary_key
    others = [name for name in block.schema.names if name not in key]
    if not key or not (compiled.rule.on_error == "dead-letter" or read & set(others)):
        return none, none
    kinds, sequence = block.kinds.to_numpy(), block.sequence.to_numpy()
    undecided = np.ones(len(block), np.bool_)
    undecided[passed] = False
    new = undecided & (kinds == RowKind.UPDATE_AFTER)
    new[1:] &= ~first_images(kinds, sequence)
    rows = np.flatnonzero(undecided & _old_images(kinds)) if "__data_event_type__" not in read else none
    for name in others:
        if len(rows) and not name.startswith(_ADDED):
            rows = rows[_without_value(block.rows.column(name).take(pa.array(rows)))]
    return rows, np.flatnonzero(new)


def _without_value(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are NULL, or the placeholder that Debezium writes to NOT NULL columns, bool[n]."""
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_string(kind):
        found = pc.is_in(array, value_set=pa.array(["", "{}", "[]"]))
    elif pa.types.is_binary(kind) or pa.types.is_list(kind):
        found = pa.array([not any(value or ()) for value in array.to_pylist()], pa.bool_())
    else:
        zero = Decimal(0) if pa.types.is_decimal(kind) else False if pa.types.is_boolean(kind) else 0
        found = pc.equal(array, pa.scalar(zero, array.type))
    return np.asarray(pc.or_kleene(found, array.is_null()).to_numpy(zero_copy_only=False))


def computed_for(compiled: Computation, batch: pa.RecordBatch, rows: Numbers, key: Sequence[str]) -> list[pa.Array]:
    """Compute the key columns of such rows, or all columns for a soft delete; the others and failed values are NULL."""
    needed = [
        number not in compiled.block_calls and (compiled.rule.soft_delete or each.column in key)
        for number, each in enumerate(compiled.expressions)
    ]
    if not any(needed):
        return [pa.nulls(len(rows))] * len(needed)
    select = [f"TRY({each.sql})" if use else "NULL" for each, use in zip(compiled.expressions, needed, strict=True)]
    with compiled.engine.prepare(select, None, batch.schema) as statement:
        found = statement.run(batch.take(pa.array(rows)))
    return [column.combine_chunks() if use else pa.nulls(len(rows)) for column, use in zip(found, needed, strict=True)]


def check_keys(compiled: Computation, block: ChangeBlock) -> None:
    """Refuse old rows, after a rule, without a value in a key column of `primary-keys`. Raises TransformError."""
    old = _old_images(block.kinds.to_numpy())
    for name in block.schema.primary_key if compiled.rule.primary_keys and old.any() else ():
        unknown = old & block.rows.column(name).is_null().to_numpy(zero_copy_only=False)
        if unknown.any():
            at = block.position_text(block.sequence[int(np.argmax(unknown))].as_py())
            raise TransformError(
                f"primary-keys: the old row of the change at {at} has no {name}, so the sink's row cannot be found",
                where=f"{compiled.rule.name}: table {block.table}",
                hint="name columns of the source's key in primary-keys, or let the messages hold whole rows "
                "(PostgreSQL: REPLICA IDENTITY FULL)",
            )
