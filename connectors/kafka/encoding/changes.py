"""Turn the row images of a block into messages, column by column, in the order of the source's log.

An update that changes the key becomes a delete of the old key and an insert of the new one, as in Debezium.
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
    """The m messages of a block.

    Attributes:
        picks: int64[m, 3]: the numbers of the rows before, after, and with the key, in the block; -1 for none.
        kind: uint8[m]: INSERT, UPDATE or DELETE.
        row: int64[m]: the row image that tells the time and log position of the change.
        tombstone: uint8[m]: 1 for a message without a value that follows the delete of its key.
        moved: uint8[m]: for a changed key, 1 in the delete (and its tombstone), 2 in the insert.
    """

    picks: np.ndarray
    kind: np.ndarray
    row: np.ndarray
    tombstone: np.ndarray
    moved: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)


def changes(block: ChangeBlock, *, tombstones: bool, split_keys: bool = True) -> ChangeMessages:
    """The messages of a block. `split_keys`: whether an update that changes the key becomes two messages.

    Raises SinkError for a before image without an after image, which sources never produce.
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
    """One message per change, but two or three if the key changed or a tombstone follows."""
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
