"""Messages of one partition, and what a format reads from them: groups of similarly described images of one table.

A format's method `read(messages) -> Reading` only looks at envelopes. `connectors.kafka.formats.blocks` converts the
values once the table's schema is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from cdc.block import RowKind
from cdc.schema import Column, TableId
from connectors.kafka.formats.convert import name_of
from connectors.kafka.formats.ddl import Changes
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.log_positions import SourceLogPosition
from connectors.kafka.formats.scan import Cells, Texts


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """The columns of n messages of one partition, in the order of their offsets; a value or key may be None.

    Attributes:
        offsets, times_ms: int64[n], the offset and the time of writing.
        keys, values: the texts; None begins and ends at -1.
    """

    topic: str
    partition: int
    offsets: Any
    times_ms: Any
    keys: Texts
    values: Texts

    @classmethod
    def of(
        cls, topic: str, partition: int, keys: Sequence[bytes | None], values: Sequence[bytes | None], first: int = 0
    ) -> Messages:
        """Messages with offsets from `first` on and times in 1970, for tests and for warming up."""
        offsets = np.arange(first, first + len(values), dtype=np.int64)
        return cls(topic, partition, offsets, np.zeros(len(values), np.int64), Texts.of(keys), Texts.of(values))

    @classmethod
    def concat(cls, parts: Sequence[Messages]) -> Messages:
        """Concatenate contiguous messages of one partition."""
        if len(parts) == 1:
            return parts[0]
        offsets, times = (np.concatenate([getattr(part, name) for part in parts]) for name in ("offsets", "times_ms"))
        keys, values = Texts.concat([part.keys for part in parts]), Texts.concat([part.values for part in parts])
        return cls(parts[0].topic, parts[0].partition, offsets, times, keys, values)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """The bytes of the values, without the heads that they share."""
        return int((self.values.ends - self.values.begins).sum())

    def part(self, first: int, last: int | None = None) -> Messages:
        """The messages from `first` to before `last`."""
        cut = slice(first, last)
        return Messages(
            self.topic, self.partition, self.offsets[cut], self.times_ms[cut],
            self.keys.take(cut), self.values.take(cut),
        )  # fmt: skip

    def key(self, message: int) -> bytes | None:
        """The key of a message."""
        return self.keys.bytes_of(message) if self.keys.begins[message] >= 0 else None

    def value(self, message: int) -> bytes | None:
        """The value of a message."""
        return self.values.bytes_of(message) if self.values.begins[message] >= 0 else None

    def offset(self, message: int) -> int:
        """The offset of a message."""
        return int(self.offsets[message])

    def where(self, message: int) -> str:
        """The topic, partition and offset of a message, as written in all texts for users."""
        return f"{self.topic}-{self.partition}@{self.offset(message)}"


@dataclass(frozen=True, slots=True, eq=False)
class MessageImages:
    """The n row images of messages: where their objects are in a buffer, and what they mean.

    Attributes:
        rows: the rows' objects. `changed`: objects whose members take precedence over the row's; may be empty texts.
        messages: int[n], the message of each image, ascending. `rows_in_message`: int[n], its number within that.
        kinds: uint8[n], the `RowKind`.
        times_ms: int64[n], the time of the source's commit.
    """

    rows: Texts
    changed: Texts | None
    messages: Any
    rows_in_message: Any
    kinds: Any
    times_ms: Any

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, rows: Any) -> MessageImages:
        """The images with these numbers, or of a mask."""
        changed = self.changed
        return MessageImages(
            self.rows.part(self.rows.begins[rows], self.rows.ends[rows]),
            None if changed is None else changed.part(changed.begins[rows], changed.ends[rows]),
            self.messages[rows], self.rows_in_message[rows], self.kinds[rows], self.times_ms[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TableGroup:
    """The images of one table.

    Attributes:
        fields: the columns as the messages describe them; None when they do not, so that values have to tell.
        key: the names of the key columns; empty for none, None when the messages do not tell.
        upserts: whether rows are upserts (new or changed); without a key they are inserts.
        database: the database that contains the schema, for servers where `table` has a schema in place of a database
            (PostgreSQL, SQL Server); otherwise empty. None when it is not known.
    """

    table: TableId
    fields: tuple[Field, ...] | None
    key: tuple[str, ...] | None
    images: MessageImages
    upserts: bool = False
    database: str | None = ""


@dataclass(frozen=True, slots=True)
class DdlMessage:
    """A message about tables instead of rows (DDL). `message` is its number.

    Attributes:
        changes: the steps of the statement, if it is fully understood; otherwise empty.
        position: in the server's log, if the message has one. Then its order relative to rows of other topics
            and partitions is known from their positions.
    """

    message: int
    database: str
    sql: str
    changes: Changes = ()
    position: SourceLogPosition | None = None


@dataclass(slots=True)
class Reading:
    """The content of messages: groups, statements, unreadable messages with the reason, and counted remarks."""

    groups: list[TableGroup] = field(default_factory=list)
    statements: list[DdlMessage] = field(default_factory=list)
    unreadable: dict[int, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    unsigned: dict[TableId, frozenset[str]] = field(default_factory=dict)
    """By table, the columns that schema changes declare as BIGINT UNSIGNED."""

    def count(self, reason: str, number: int) -> None:
        """Add to a counted remark."""
        self.counts[reason] = self.counts.get(reason, 0) + number

    def count_tombstones(self, messages: Messages) -> None:
        """Count keys without a value where nothing is deleted by them."""
        found = int((messages.keys.present & ~messages.values.present).sum())
        if found:
            self.count(f"tombstones-left-out {messages.topic}", found)


class Format(Protocol):
    """A way of writing changes as messages. Remembers schemas between calls; must not be shared."""

    def read(self, messages: Messages, table: TableId | None = None) -> Reading:
        """Sort messages into groups. `table` is the table whose rows the topic has; None when that is not known."""

    def natural(self, column: Column) -> Field:
        """The field, with the way its values are written, of a column that the messages do not describe."""


_T = TypeVar("_T")


def rows_by_table(
    reading: Reading, numbers: Any, rows: Any, runs: Any, describe: Callable[[int], tuple[TableId, _T]]
) -> Iterator[tuple[TableId, _T, Any]]:
    """Gather rows with the same table and shape, as long as the table has no other shape in between.

    Args:
        numbers: the messages of all rows; `rows` are those to gather.
        runs: int[n], equal for neighbouring rows that are described alike.
        describe: gives the table and shape of a run by the index of its first row in `rows`; a ValueError makes its
            messages unreadable.
    """
    found: list[tuple[TableId, _T, list[Any]]] = []
    latest: dict[TableId, int] = {}
    for first, last in consecutive(runs):
        try:
            table, shape = describe(first)
        except ValueError as error:
            reading.unreadable.update(dict.fromkeys(numbers[rows[first:last]].tolist(), str(error)))
            continue
        at = latest.get(table)
        if at is None or found[at][1] != shape:
            at = latest[table] = len(found)
            found.append((table, shape, []))
        found[at][2].append(rows[first:last])
    for table, shape, pieces in found:
        yield table, shape, np.concatenate(pieces)


def table_of(databases: Cells, tables: Cells, row: int) -> TableId:
    """The table that a message names by `database` and `table`. Raises ValueError."""
    return TableId(name_of(databases, row, "database"), name_of(tables, row, "table"))


def times_of(messages: Messages, numbers: Any, committed: pa.Array | None) -> Any:
    """The times (int64[n]) of the source's commits; otherwise those at which messages were written."""
    if committed is not None and not committed.null_count:
        return committed.to_numpy()
    written = messages.times_ms[numbers]
    if committed is None:
        return written
    valid = np.asarray(committed.is_valid().to_numpy(zero_copy_only=False), bool)
    return np.where(valid, committed.fill_null(0).to_numpy(), written)


def repeated(counts: Any) -> tuple[Any, Any]:
    """Repeat each index by its count, and number the repetitions: `[2, 0, 1]` gives `[0, 0, 2]` and `[0, 1, 0]`."""
    source = np.repeat(np.arange(len(counts)), counts)
    return source, np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)


def consecutive(numbers: Any) -> Iterator[tuple[int, int]]:
    """First and last (exclusive) of each run of equal numbers."""
    if not len(numbers):
        return
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *cuts.tolist(), len(numbers)]
    yield from itertools.pairwise(bounds)


BEFORE, AFTER = int(RowKind.UPDATE_BEFORE), int(RowKind.UPDATE_AFTER)
INSERT, DELETE = int(RowKind.INSERT), int(RowKind.DELETE)
