"""Blocks to messages: one encoder for each table and schema. Executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.kafka.encoding.changes import DELETE, INSERT, ChangeMessages, changes
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.origin import Origin
from connectors.kafka.encoding.records import Record, RecordTemplate
from connectors.kafka.encoding.template import AFTER, BEFORE, names_beside

_ROWS = 16_384
"""Row images that are encoded in one go: what is written of them stays in the processor's cache for the most part."""

_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"

Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class EncodedMessages:
    """Messages of one table, in order.

    Attributes:
        records: key and value of each, without those that it does not have.
        sizes: int64[m], bytes of key, value and headers together.
        headers: of messages that have any, by their number.
        keyed: whether messages of the table have keys.
    """

    table: TableId
    records: list[Record]
    sizes: np.ndarray
    headers: dict[int, Headers]
    keyed: bool

    def __len__(self) -> int:
        return len(self.records)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return int(self.sizes.sum())


class Encoder:
    """Encodes blocks of one table at one schema."""

    def __init__(
        self, layout: MessageLayout, *, tombstones: bool, now_ms: Callable[[], int], headers: Headers = ()
    ) -> None:
        """`headers`: of every message, before those that say where a changed key went."""
        self._headers = headers
        self._layout, self._now_ms = layout, now_ms
        self._tombstones = tombstones and layout.tombstones
        self._records = RecordTemplate(layout.key, layout.value)
        self._moved = RecordTemplate(layout.moved, ()) if layout.moved is not None else None
        self._beside = names_beside(layout.value)

    def encode(self, block: ChangeBlock) -> Iterator[EncodedMessages]:
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
        origin = Origin(block, found, self._now_ms())
        for first in range(0, len(found), _ROWS):
            yield self._part(block.table, rows, found, origin, slice(first, first + _ROWS))

    def _part(
        self, table: TableId, rows: pa.RecordBatch, found: ChangeMessages, origin: Origin, part: slice
    ) -> EncodedMessages:
        picks = found.picks[part]
        used = picks[picks >= 0]
        # A changed key's other half is named in headers: its row may be one further.
        first, last = max(0, int(used.min()) - 1), min(rows.num_rows, int(used.max()) + 2)
        picks = np.where(picks >= 0, picks - first, -1)
        near = rows.slice(first, last - first)
        beside = {name: _sliced(origin.column(name), part.start, len(picks)) for name in self._beside}
        gone = found.tombstone[part] if self._layout.deletes else (found.kind[part] == DELETE).astype(np.uint8)
        records, sizes = self._records.write(near, beside, picks, origin.events.of[part], gone)
        headers: dict[int, Headers] = {}
        if self._moved is not None:
            headers = _moved(found.moved[part], picks, self._moved, near)
        if self._headers:
            headers = {index: [*self._headers, *headers.get(index, ())] for index in range(len(records))}
        for index, named in headers.items():
            sizes[index] += size_of(named)
        return EncodedMessages(table, records, sizes, headers, self._layout.key is not None)


def size_of(headers: Headers) -> int:
    """The bytes of headers with their names."""
    return sum(len(name.encode()) + len(value) for name, value in headers)


def _sliced(column: pa.Array | bytes, start: int, count: int) -> pa.Array | bytes:
    return column if isinstance(column, bytes) else column.slice(start, count)


def _moved(moved: np.ndarray, picks: np.ndarray, key: RecordTemplate, rows: pa.RecordBatch) -> dict[int, Headers]:
    """Debezium's headers for a key that changed: the new one with the delete, the old one with the insert."""
    chosen = np.flatnonzero(moved)
    if len(chosen) == 0:
        return {}
    # Of an update that became two, the insert's row is the one behind that of the delete.
    other = np.where(moved[chosen] == 1, picks[chosen, BEFORE] + 1, picks[chosen, AFTER] - 1)
    none = np.full(len(chosen), -1)
    wanted = np.stack([none, none, other], axis=1)
    records, _ = key.write(rows, {}, wanted, np.arange(len(chosen)), np.ones(len(chosen), np.uint8))
    return {
        index: [(_NEW_KEY if moved[index] == 1 else _OLD_KEY, record["key"])]
        for index, record in zip(chosen.tolist(), records, strict=True)
    }
