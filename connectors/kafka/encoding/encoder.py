"""Encode blocks as messages, with one encoder per table and schema. Runs in executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.kafka.encoding.changes import DELETE, INSERT, ChangeMessages, changes
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.records import Record, RecordTemplate
from connectors.kafka.encoding.template import AFTER, BEFORE, other_columns

_ROWS = 16_384
"""The row images that are encoded at a time: few enough for most of their text to stay in the processor's cache."""
_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
Headers = Sequence[tuple[str, bytes]]
_OPS = np.frombuffer(b"cud", np.uint8)
_READ = ord("r")
_TYPES = ("INSERT", "UPDATE", "DELETE")
_MAXWELL_TYPES = ("insert", "update", "delete", "bootstrap-insert")
_SNAPSHOT = 3
Column: TypeAlias = Any
"""An Arrow array, or bytes."""


@dataclass(frozen=True, slots=True)
class EncodedMessages:
    """Encoded messages of one table, in order.

    Attributes:
        records: the key and value of each message, as far as it has them.
        sizes: int64[m], the bytes of key, value and headers together.
        headers: the headers of the messages that have some, by the message's number.
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
        """The bytes of all messages."""
        return int(self.sizes.sum())


class Encoder:
    """Encodes the blocks of one table with one schema."""

    def __init__(
        self, layout: MessageLayout, *, tombstones: bool, now_ms: Callable[[], int], headers: Headers = ()
    ) -> None:
        """`headers`: the headers of every message, before those about a changed key."""
        self._headers = headers
        self._layout, self._now_ms = layout, now_ms
        self._tombstones = tombstones and layout.tombstones
        self._records = RecordTemplate(layout.key, layout.value)
        self._moved = RecordTemplate(layout.moved, ()) if layout.moved is not None else None
        self._metadata = other_columns(layout.value)

    def encode(self, block: ChangeBlock) -> Iterator[EncodedMessages]:
        """Encode a block, part by part. Raises SinkError for changes that the format cannot express."""
        found = changes(block, tombstones=self._tombstones, split_keys=self._layout.split_keys)
        if not self._layout.deletes and self._layout.key is None and (found.kind != INSERT).any():
            raise SinkError(
                "rows of a table without a key were updated or deleted, which plain rows cannot say",
                where=str(block.table),
                hint="choose another value.format, exclude the table, or publish it in a pipeline of its own",
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
        # For a changed key, headers name the other key, whose row may be the next one.
        first, last = max(0, int(used.min()) - 1), min(rows.num_rows, int(used.max()) + 2)
        picks = np.where(picks >= 0, picks - first, -1)
        slice_ = rows.slice(first, last - first)
        metadata = {
            name: column if isinstance(column, bytes) else column.slice(part.start, len(picks))
            for name, column in ((name, origin.column(name)) for name in self._metadata)
        }
        deleted = found.tombstone[part] if self._layout.deletes else (found.kind[part] == DELETE).astype(np.uint8)
        records, sizes = self._records.write(slice_, metadata, picks, origin.events.of[part], deleted)
        headers: dict[int, Headers] = {}
        if self._moved is not None:
            headers = _moved(found.moved[part], picks, self._moved, slice_)
        if self._headers:
            headers = {index: [*self._headers, *headers.get(index, ())] for index in range(len(records))}
        for index, named in headers.items():
            sizes[index] += size_of(named)
        return EncodedMessages(table, records, sizes, headers, self._layout.key is not None)


def size_of(headers: Headers) -> int:
    """The bytes of headers, including their names."""
    return sum(len(name.encode()) + len(value) for name, value in headers)


def _moved(moved: np.ndarray, picks: np.ndarray, key: RecordTemplate, rows: pa.RecordBatch) -> dict[int, Headers]:
    """Debezium's headers for a changed key: the delete has the new key, the insert the old one."""
    chosen = np.flatnonzero(moved)
    if len(chosen) == 0:
        return {}
    # When an update became two messages, the insert's row is the one after that of the delete.
    other = np.where(moved[chosen] == 1, picks[chosen, BEFORE] + 1, picks[chosen, AFTER] - 1)
    none = np.full(len(chosen), -1)
    pick_rows = np.stack([none, none, other], axis=1)
    records, _ = key.write(rows, {}, pick_rows, np.arange(len(chosen)), np.ones(len(chosen), np.uint8))
    return {
        index: [(_NEW_KEY if moved[index] == 1 else _OLD_KEY, record["key"])]
        for index, record in zip(chosen.tolist(), records, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Events:
    """The events of messages: neighbouring messages with one sequence and one time are of the same event.

    Attributes:
        of: int64[m], the number of each message's event.
        sequence, ts_ms: int64[e], those of each event.
    """

    of: np.ndarray
    sequence: np.ndarray
    ts_ms: np.ndarray


class Origin:
    """The columns about the origin of a block's changes; each is made when it is asked for."""

    def __init__(self, block: ChangeBlock, changes: ChangeMessages, now_ms: int) -> None:
        self._block, self._changes, self._now_ms = block, changes, now_ms
        self.events = _events(_numbers(block.sequence)[changes.row], _numbers(block.timestamps_ms)[changes.row])
        self._made: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """The column of that name: a value per message, or the text that all messages have.

        Names are `op` and `change` (one ASCII byte), `type`, `maxwell_type`, `snapshot`, `ts_*`, `now_*`, `file`,
        `begin`, `pos`, `row`, `server_id`, `gtid`, `thread`.
        """
        if name not in self._made:
            self._made[name] = _COLUMNS[name](self)
        return self._made[name]

    def _each(self, per_event: pa.Array) -> pa.Array:
        return per_event.take(pa.array(self.events.of))

    def _kinds(self, kinds: np.ndarray, texts: tuple[str, ...]) -> Column:
        if len(kinds) and (kinds == kinds[0]).all():
            return f'"{texts[kinds[0]]}"'.encode()
        return pa.array(texts).take(pa.array(kinds))

    def _maxwell_kinds(self) -> np.ndarray:
        kind = self._changes.kind
        return np.where((kind == INSERT) & self._block.snapshot, _SNAPSHOT, kind).astype(np.uint8)

    def _ops(self, *, snapshot: bool) -> Column:
        kind = self._changes.kind
        found = np.where((kind == INSERT) & snapshot, _READ, _OPS[kind]).astype(np.uint8)
        if len(found) and (found == found[0]).all():
            return f'"{chr(found[0])}"'.encode()
        return pa.array(found)

    def _times(self, factor: int) -> Column:
        return pa.array((self.events.ts_ms * factor)[self.events.of])

    def _now_column(self, factor: int) -> Column:
        return str(self._now_ms * factor).encode()

    def _find_positions(self) -> None:
        """Find the log file and position, from the source's text for a sequence: `file:position`."""
        files, positions = [], []
        for each in self.events.sequence.tolist():
            file, _, position = self._block.position_text(each).rpartition(":")
            files.append(file)
            positions.append(int(position) if position.isdigit() else 0)
        self._made["position_file"] = self._each(pa.array(files, pa.string()))
        self._made["pos"] = self._each(pa.array(positions, pa.int64()))

    def _position_column(self, name: str) -> Column:
        self._find_positions()
        return self._made[name]

    def _file(self) -> Column:
        """The file's name if the source gives rows this metadata; else the beginning of its positions."""
        if self._block.metadata is None:
            return self.column("position_file")
        return self._metadata_column("log_file", b"")

    def _begin(self) -> Column:
        """The position where the row's event begins, if the source knows it; else where it ends."""
        return self.column("pos") if self._block.metadata is None else self._metadata_column("binlog_begin", b"")

    def _metadata_column(self, name: str, otherwise: bytes) -> Column:
        if self._block.metadata is None:
            return otherwise
        return self._each(self._block.metadata(name, pa.array(self.events.sequence)))

    def _server(self) -> Column:
        found = self._metadata_column("server_id", b"0")
        return found if isinstance(found, bytes) else pc.fill_null(found, 0)

    def _rows(self) -> Column:
        """The number of the row within its event; the two images of an update count as one row."""
        row = _numbers(self._block.row)[self._changes.row]
        kinds = np.asarray(self._block.kinds.to_numpy(zero_copy_only=False), np.uint8)[self._changes.row]
        return pa.array(np.asarray(np.where(kinds == RowKind.UPDATE_AFTER, row // 2, row), np.int32))


_COLUMNS: dict[str, Callable[[Origin], Column]] = {
    "op": lambda origin: origin._ops(snapshot=origin._block.snapshot),
    "change": lambda origin: origin._ops(snapshot=False),
    "type": lambda origin: origin._kinds(origin._changes.kind, _TYPES),
    "maxwell_type": lambda origin: origin._kinds(origin._maxwell_kinds(), _MAXWELL_TYPES),
    "snapshot": lambda origin: b'"true"' if origin._block.snapshot else b'"false"',
    "ts_ms": lambda origin: origin._times(1),
    "ts_us": lambda origin: origin._times(1000),
    "ts_ns": lambda origin: origin._times(1_000_000),
    "now_ms": lambda origin: origin._now_column(1),
    "now_us": lambda origin: origin._now_column(1000),
    "now_ns": lambda origin: origin._now_column(1_000_000),
    "position_file": lambda origin: origin._position_column("position_file"),
    "pos": lambda origin: origin._position_column("pos"),
    "begin": Origin._begin,
    "file": Origin._file,
    "server_id": Origin._server,
    "gtid": lambda origin: origin._metadata_column("gtid", b"null"),
    "row": Origin._rows,
    "thread": lambda _: b"null",
}


def _events(sequence: np.ndarray, ts_ms: np.ndarray) -> Events:
    first = np.ones(len(sequence), bool)
    first[1:] = (sequence[1:] != sequence[:-1]) | (ts_ms[1:] != ts_ms[:-1])
    return Events(np.cumsum(first) - 1, sequence[first], ts_ms[first])


def _numbers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
