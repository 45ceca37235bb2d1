"""Which messages the row images of a block become: columnar, in the order of the source's log.

An update whose key changes is a delete of the old key and an insert of the new one, as Debezium has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError
from connectors.kafka.encoding.template import differing

INSERT, UPDATE, DELETE = range(3)


@dataclass(frozen=True, slots=True)
class ChangeMessages:
    """The messages of a block, m of them.

    Attributes:
        picks: int64[m, 3]: rows of the block: before, after, key; -1 is none.
        kind: uint8[m]: INSERT, UPDATE or DELETE.
        row: int64[m]: the row image that says when and where the change was.
        tombstone: uint8[m]: 1 for a message without a value, after the delete of its key.
        moved: uint8[m]: 1 for a delete that a changed key made (and its tombstone), 2 for the insert.
    """

    picks: np.ndarray
    kind: np.ndarray
    row: np.ndarray
    tombstone: np.ndarray
    moved: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)


def changes(block: ChangeBlock, *, tombstones: bool, split_keys: bool = True) -> ChangeMessages:
    """The messages of a block. `split_keys`: an update that changes the key becomes two.

    Raises SinkError for a before image without its after image, which no source makes.
    """
    kinds = np.asarray(block.kinds.to_numpy(zero_copy_only=False), np.uint8)
    events = np.flatnonzero(kinds != RowKind.UPDATE_BEFORE)
    if len(kinds) and _lone(kinds):
        raise SinkError("an update's row before has none after it", where=str(block.table))
    kind = kinds[events]
    paired = np.zeros(len(events), bool)
    later = events > 0
    paired[later] = kinds[events[later] - 1] == RowKind.UPDATE_BEFORE
    before = np.where(paired, events - 1, np.where(kind == RowKind.DELETE, events, -1))
    after = np.where(kind == RowKind.DELETE, -1, events)
    moved = np.zeros(len(events), bool)
    if split_keys and block.schema.primary_key and paired.any():
        pairs = np.stack([events[paired] - 1, events[paired]], axis=1)
        moved[paired] = differing(block.rows, block.schema.primary_key, pairs)
    return _spread(events, kind, before, after, moved, tombstones=tombstones)


def _lone(kinds: np.ndarray) -> bool:
    befores = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
    return bool(len(befores)) and (
        befores[-1] == len(kinds) - 1 or bool((kinds[befores + 1] != RowKind.UPDATE_AFTER).any())
    )


def _spread(
    events: np.ndarray,
    kind: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    moved: np.ndarray,
    *,
    tombstones: bool,
) -> ChangeMessages:
    """One message per change, two or three where a key changed or a tombstone follows."""
    removed = (kind == RowKind.DELETE) | moved
    counts = 1 + moved.astype(np.int64) + (removed.astype(np.int64) if tombstones else 0)
    of = np.repeat(np.arange(len(events)), counts)
    step = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    last = step == counts[of] - 1
    tombstone = removed[of] & (step == 1) if tombstones else np.zeros(len(of), bool)
    inserted = moved[of] & last
    deleted = removed[of] & ~inserted
    found = np.where(inserted | (kind[of] == RowKind.INSERT), INSERT, np.where(deleted, DELETE, UPDATE))
    old = np.where(inserted, -1, before[of])
    new = np.where(deleted, -1, after[of])
    key = np.where(new >= 0, new, old)
    marks = np.where(moved[of], np.where(inserted, 2, 1), 0)
    return ChangeMessages(
        np.stack([old, new, key], axis=1).astype(np.int64),
        found.astype(np.uint8),
        events[of],
        tombstone.astype(np.uint8),
        marks.astype(np.uint8),
    )
