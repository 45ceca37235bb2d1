"""Metadata of rows (`ChangeBlock.metadata`) where blocks of several pieces of a source's log become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock

Metadata = Callable[[str, pa.Array], pa.Array]


def merged_metadata(blocks: Sequence[ChangeBlock]) -> Metadata | None:
    """One that asks each block's own for that block's rows; None when none has any.

    Pieces of a log follow each other: the sequences of blocks with different ones do not mix.
    """
    ends: dict[Metadata | None, int] = {}
    for block in blocks:
        if len(block):
            last = int(np.asarray(block.sequence.to_numpy()).max())
            ends[block.metadata] = max(last, ends.get(block.metadata, last))
    pieces = sorted(ends.items(), key=lambda item: item[1])
    if len(pieces) < 2:
        return blocks[0].metadata if not pieces else pieces[0][0]
    if all(asked is None for asked, _ in pieces):
        return None

    def asked(name: str, sequence: pa.Array) -> pa.Array:
        place = np.searchsorted([end for _, end in pieces], sequence.to_numpy())
        parts, order = [], []
        for number, (own, _) in enumerate(pieces):
            chosen = np.flatnonzero(place == number)
            if len(chosen):
                part = sequence.take(pa.array(chosen))
                parts.append(pa.nulls(len(chosen)) if own is None else own(name, part))
                order.append(chosen)
        found = pa.concat_arrays(_alike(parts))
        back = np.empty(len(sequence), np.int64)
        back[np.concatenate(order)] = np.arange(len(sequence))
        return found.take(pa.array(back))

    return asked


def _alike(parts: list[pa.Array]) -> list[pa.Array]:
    """The parts in one type: NULLs without one take that of the others."""
    kinds = [part.type for part in parts if not pa.types.is_null(part.type)]
    return [part.cast(kinds[0]) if kinds else part for part in parts]
