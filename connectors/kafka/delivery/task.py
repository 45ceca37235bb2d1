"""The messages of a task, encoded ahead while it waits for its turn, and the counts of the task. Executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.kafka.delivery.partitioner import partition_of
from connectors.kafka.delivery.too_large import COUNTED, OversizedRecords
from connectors.kafka.delivery.topics import Topics
from connectors.kafka.delivery.transaction import TransactionWriter
from connectors.kafka.delivery.turn import Turn
from connectors.kafka.encoding.connect import beyond_a_day
from connectors.kafka.encoding.encoder import EncodedMessages
from connectors.kafka.topic_names import TopicNames

_AHEAD_BYTES = 64 << 20
"""The bytes that are encoded before the task's turn comes."""

_BY_KEY = -1

_MOST_SIGNED = (1 << 63) - 1

WRAPPED = "values of BIGINT UNSIGNED from 2^63 on, written as negative numbers"
"""Debezium does the same silently; `debezium-json.bigint.unsigned.handling.mode: precise` keeps the values."""

BEYOND_A_DAY = "times below zero or from 24 h on, which Connect's Time does not take, written as NULL"
"""Debezium does the same; `debezium-json.time.precision.mode: adaptive_time_microseconds` keeps the values."""

Losses = Mapping[str, Callable[[ChangeBlock], int]]
"""By their description, functions that count the values of a block that are not written exactly."""


class Outgoing:
    """Messages on their way to the writer, held back until it is the task's turn."""

    def __init__(
        self,
        writer: TransactionWriter,
        topics: Topics,
        names: TopicNames,
        turn: Turn,
        too_large: OversizedRecords,
        *,
        to_zero: bool,
    ) -> None:
        self._writer, self._topics, self._names, self._turn = writer, topics, names, turn
        self._to_zero, self._too_large = to_zero, too_large
        self._held: list[EncodedMessages] = []
        self._held_bytes = 0
        self._open = False

    def add(self, messages: EncodedMessages) -> None:
        """Add messages; waits for the turn when enough are held back. Raises SinkError."""
        if self._open:
            self._send(messages)
            return
        self._held.append(messages)
        self._held_bytes += messages.size
        if self._turn.has_come():
            self._release()
        elif self._held_bytes > _AHEAD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Wait for the turn, and pass on the held messages."""
        if not self._open:
            self._turn.wait()
            self._release()

    def _release(self) -> None:
        self._open = True
        buffered, self._held = self._held, []
        for messages in buffered:
            self._send(messages)

    def _send(self, messages: EncodedMessages) -> None:
        topic = self._names.topic(messages.table)
        sendable = self._too_large.without_oversized(topic, messages)
        self._writer.send(topic, sendable, self._partition(topic, sendable))

    def _partition(self, topic: str, messages: EncodedMessages) -> int:
        """The partition for messages without a key: one for all rows of a table, to keep their order."""
        count = self._topics.partitions(topic)
        if self._to_zero or count == 1:
            return 0
        return _BY_KEY if messages.keyed else partition_of(messages.table, count)


def count_wrapped(block: ChangeBlock) -> int:
    """How many values of a block's BIGINT UNSIGNED columns do not fit a signed number."""
    columns = (block.rows.column(name) for name in block.rows.schema.names)
    most = pa.scalar(_MOST_SIGNED, pa.uint64())
    found = (pc.sum(pc.greater(each, most)).as_py() for each in columns if pa.types.is_uint64(each.type))
    return sum(number or 0 for number in found)


def count_beyond_a_day(block: ChangeBlock) -> int:
    """How many values of a block's TIME columns are no times of day."""
    columns = (block.rows.column(name) for name in block.rows.schema.names)
    found = (pc.sum(beyond_a_day(each)).as_py() for each in columns if pa.types.is_duration(each.type))
    return sum(number or 0 for number in found)


class TaskCounts:
    """Counts the changes of a task by table, for the handles that it returns."""

    def __init__(self, partition: int, losses: Losses) -> None:
        self._partition, self._losses = partition, losses
        self._counts: dict[TableId, Counter[int]] = {}
        self._lost: dict[str, Counter[TableId]] = {reason: Counter() for reason in losses}

    def add(self, block: ChangeBlock) -> None:
        """Count the rows of a block."""
        kinds = np.bincount(np.asarray(block.kinds.to_numpy(zero_copy_only=False)), minlength=len(RowKind))
        self._counts.setdefault(block.table, Counter()).update(dict(enumerate(kinds.tolist())))
        for reason, count in self._losses.items():
            self._lost[reason][block.table] += count(block)

    def prepared(self, too_large: Mapping[TableId, int] | None = None) -> list[Prepared]:
        """One handle per table. Nothing is left to commit: the handle only carries the counts.

        `too_large` has the number of messages of each table that became dead letters.
        """
        extra = {COUNTED: too_large or {}, **self._lost}
        return [
            Prepared(
                table, self._partition, None, number[RowKind.INSERT], number[RowKind.UPDATE_AFTER],
                number[RowKind.DELETE], {reason: found[table] for reason, found in extra.items() if found.get(table)},
            )
            for table, number in self._counts.items()
        ]  # fmt: skip
