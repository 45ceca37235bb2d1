"""A filter and the images of an update: before and after are judged apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind

Kinds = npt.NDArray[np.uint8]


def judged(kinds: Kinds, sequence: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> Kinds:
    """Row kinds after a filter: an update of which only one image passes is a delete or an insert.

    Args:
        kinds: uint8[n], `RowKind` numbers.
        sequence: int64[n]; both images of an update have the same.
        kept: bool[n]; which images pass.

    An image whose partner is not in the block keeps its kind.
    """
    result = kinds.copy()
    first = (
        (kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER) & (sequence[:-1] == sequence[1:])
    )
    left = np.flatnonzero(first & kept[:-1] & ~kept[1:])
    entered = np.flatnonzero(first & ~kept[:-1] & kept[1:]) + 1
    result[left] = RowKind.DELETE
    result[entered] = RowKind.INSERT
    return result


def soft_deleted(kinds: Kinds) -> Kinds:
    """Deletes as inserts of the row that was deleted."""
    return np.where(kinds == RowKind.DELETE, np.uint8(RowKind.INSERT), kinds).astype(np.uint8)


def passed_kinds(block: ChangeBlock, rows: npt.NDArray[np.int64] | None, *, soft_delete: bool) -> pa.Array:
    """The kinds of the rows that pass, in their order; `rows` is None when all do."""
    kinds = block.kinds.to_numpy()
    if rows is None and not soft_delete:
        return block.kinds
    if rows is not None:
        kept = np.zeros(len(block), dtype=np.bool_)
        kept[rows] = True
        kinds = judged(kinds, block.sequence.to_numpy(), kept)[rows]
    return pa.array(soft_deleted(kinds) if soft_delete else kinds, pa.uint8())
