"""Blocks to messages: one encoder for each table and schema. Executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.kafka.encoding.changes import DELETE, INSERT, Changes, changes
from connectors.kafka.encoding.layout import Layout
from connectors.kafka.encoding.origin import beside
from connectors.kafka.encoding.template import AFTER, BEFORE, Template, Texts

_ROWS = 16_384
"""Row images that are encoded in one go: what is written of them stays in the processor's cache for the most part."""

_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one table, in order.

    Attributes:
        keys, values: None for a message without.
        headers: of messages that have any, by their number.
        keyed: whether messages of the table have keys.
        size: bytes of all keys and values.
    """

    table: TableId
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: dict[int, Headers]
    keyed: bool
    size: int

    def __len__(self) -> int:
        return len(self.values)


class Encoder:
    """Encodes blocks of one table at one schema."""

    def __init__(self, layout: Layout, *, tombstones: bool, now_ms: Callable[[], int], headers: Headers = ()) -> None:
        """`headers`: of every message, before those that say where a changed key went."""
        self._headers = headers
        self._layout, self._now_ms = layout, now_ms
        self._tombstones = tombstones and layout.tombstones
        self._value = Template(layout.value)
        self._key = Template(layout.key) if layout.key is not None else None
        self._moved = Template(layout.moved) if layout.moved is not None else None

    def encode(self, block: ChangeBlock) -> Iterator[Messages]:
        """The block's messages, a part at a time. Raises SinkError for changes that the format cannot express."""
        found = changes(block, tombstones=self._tombstones, split_keys=self._layout.split_keys)
        if not self._layout.deletes and self._layout.key is None and (found.kind != INSERT).any():
            raise SinkError(
                "rows of a table without a key were updated or deleted, which plain rows cannot say",
                where=str(block.table),
                hint="choose another value.format, leave the table out, or publish it in a pipeline of its own",
            )
        rows = block.rows
        for name, prepare in self._layout.prepare.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, name, prepare(rows.column(index)))
        places = beside(block, found, self._now_ms())
        for first in range(0, len(found), _ROWS):
            yield self._part(block.table, rows, found, places, slice(first, first + _ROWS))

    def _part(
        self, table: TableId, rows: pa.RecordBatch, found: Changes, places: Mapping[str, pa.Array], part: slice
    ) -> Messages:
        picks = found.picks[part]
        used = picks[picks >= 0]
        # A changed key's other half is named in headers: its row may be one further.
        first, last = max(0, int(used.min()) - 1), min(rows.num_rows, int(used.max()) + 2)
        picks = np.where(picks >= 0, picks - first, -1)
        near = rows.slice(first, last - first)
        count = len(picks)
        here = {name: array.slice(part.start, count) for name, array in places.items()}
        gone = found.tombstone[part] if self._layout.deletes else (found.kind[part] == DELETE).astype(np.uint8)
        written = self._value.write(near, here, picks, gone)
        values, size = _texts(written, gone), len(written.data)
        keys: list[bytes | None] = [None] * count
        headers: dict[int, Headers] = {}
        if self._key is not None:
            written = self._key.write(near, here, picks, np.zeros(count, np.uint8))
            keys, size = _texts(written, None), size + len(written.data)
        if self._moved is not None:
            headers = _moved(found.moved[part], picks, self._moved, near, here)
        if self._headers:
            headers = {index: [*self._headers, *headers.get(index, ())] for index in range(count)}
        return Messages(table, keys, values, headers, self._key is not None, size)


def _texts(texts: Texts, skipped: np.ndarray | None) -> list[bytes | None]:
    """One object per text; None where it was skipped."""
    data = bytes(texts.data)
    found: list[bytes | None] = [data[start:end] for start, end in texts.bounds()]
    if skipped is not None:
        for index in np.flatnonzero(skipped).tolist():
            found[index] = None
    return found


def _moved(
    moved: np.ndarray,
    picks: np.ndarray,
    template: Template,
    rows: pa.RecordBatch,
    places: Mapping[str, pa.Array],
) -> dict[int, Headers]:
    """What Debezium says of a key that changed: the new one with the delete, the old one with the insert."""
    chosen = np.flatnonzero(moved)
    if len(chosen) == 0:
        return {}
    # Of an update that became two, the insert's row is the one behind that of the delete.
    other = np.where(moved[chosen] == 1, picks[chosen, BEFORE] + 1, picks[chosen, AFTER] - 1)
    wanted = np.stack([np.full(len(chosen), -1), np.full(len(chosen), -1), other], axis=1).astype(np.int64)
    taken = pa.array(chosen)
    beside_them = {name: array.take(taken) for name, array in places.items()}
    texts = _texts(template.write(rows, beside_them, wanted, np.zeros(len(chosen), np.uint8)), None)
    found: dict[int, Headers] = {}
    for index, text in zip(chosen.tolist(), texts, strict=True):
        found[index] = [(_NEW_KEY if moved[index] == 1 else _OLD_KEY, text or b"")]
    return found
