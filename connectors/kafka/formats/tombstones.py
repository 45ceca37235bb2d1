"""Tombstones of Debezium: messages with a key and no value, which let a compacted topic forget the key. Pure.

Its connector writes one behind each delete. Compaction removes the delete, so a reader that was behind finds the
tombstone alone; it is read as the delete of its key then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.schema import TableId
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.scan import Tree
from connectors.kafka.formats.wrapped import WrappedPayloads
from connectors.kafka.kernels import STRING

_OP = Tree({"op": None})
_DELETE = ord("d")


def lone_tombstones(messages: Messages, rows: WrappedPayloads) -> Any:
    """The numbers of tombstones that do not follow the delete of their key. `rows` are the values there are."""
    tombstones = np.flatnonzero(~messages.values.there & messages.keys.there)
    if not len(tombstones):
        return tombstones
    if not len(rows.numbers):
        return tombstones
    places = np.minimum(np.searchsorted(rows.numbers, tombstones - 1), len(rows.numbers) - 1)
    behind = rows.numbers[places] == tombstones - 1
    texts = rows.texts.part(rows.texts.begins[places[behind]], rows.texts.ends[places[behind]])
    op = _OP.scan(texts).cells("op")
    behind[behind] = (op.kinds == STRING) & (texts.data[op.starts] == _DELETE)
    delivered = [number for number in tombstones[behind].tolist() if messages.key(number) == messages.key(number - 1)]
    return np.setdiff1d(tombstones, delivered, assume_unique=True)


def with_deletes(rows: WrappedPayloads, numbers: Any, shapes: Sequence[int | None], table: TableId) -> WrappedPayloads:
    """The payloads with a delete, without the row before, for each of these messages, in order.

    `shapes` tell how their keys are written; None for as the row before it in the topic.
    """
    text = json.dumps({"op": "d", "source": {"db": table.database, "table": table.table}}).encode()
    texts = rows.texts.with_more([text])
    begin = len(rows.texts.data)  # padding and all: what is added stands behind it
    count = len(numbers)
    all_numbers = np.concatenate((rows.numbers, numbers))
    order = np.argsort(all_numbers, kind="stable")
    begins = np.concatenate((texts.begins, np.full(count, begin, np.int32)))[order]
    ends = np.concatenate((texts.ends, np.full(count, begin + len(text), np.int32)))[order]
    own = np.array([-1 if shape is None else shape for shape in shapes], np.int64)
    found = np.concatenate((rows.shapes, own))[order]
    known = np.maximum.accumulate(np.where(found >= 0, np.arange(len(found)), -1))
    first = int(np.argmax(found >= 0)) if (found >= 0).any() else -1
    places = np.where(known < 0, first, known)
    filled = found[places] if first >= 0 else np.zeros(len(found), np.int64)
    return replace(rows, numbers=all_numbers[order], texts=texts.part(begins, ends), shapes=filled)
