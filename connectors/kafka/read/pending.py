"""Messages of partitions that were read but not planned yet: sorts those of a fetcher, and explains failures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import KafkaError

from cdc.errors import CdcError, PositionLost
from connectors.kafka.client import KafkaCluster
from connectors.kafka.fetch.fetcher import Failure, Fetched, Fetcher
from connectors.kafka.formats.groups import Messages
from connectors.kafka.read.offset import partition_name

_OUT_OF_RANGE = frozenset({
    KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION,
})  # fmt: skip
_LOST_HINT = (
    "the topic's retention has removed messages that were not read yet, it was recreated, or its broker has lost "
    "messages: start over with an empty state directory, or set scan.on-lost: earliest to go on with what there is"
)


class OffsetLost(PositionLost):
    """Raised when the next offset to read does not exist; `name` is the partition."""

    def __init__(self, message: str, *, where: str = "", hint: str = "", name: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.name = name


def lost_offset(reason: str, part: Pending) -> OffsetLost:
    """The error about a partition whose next offset does not exist; `reason` describes that."""
    return OffsetLost(reason, where=f"{part.topic}-{part.partition}", hint=_LOST_HINT, name=part.name)


@dataclass(frozen=True, slots=True)
class Failed:
    """The reason why a partition cannot be read now, and since when, in monotonic seconds."""

    error: CdcError
    since_s: float


@dataclass(slots=True)
class Pending:
    """The messages of one partition that were read but not planned yet, and the position where reading continues.

    Attributes:
        at_end: whether there was nothing after `position` when it was last asked for.
        bytes: the bytes of the messages' values.
        was_read: whether an answer has come for it, in this process or in the one that planned its messages.
        failed: the reason, perhaps a temporary one, why it cannot be read now.
    """

    topic: str
    partition: int
    position: int
    parts: list[Messages] = field(default_factory=list)
    at_end: bool = False
    bytes: int = 0
    was_read: bool = False
    failed: Failed | None = None

    @property
    def name(self) -> str:
        """The partition's name in offsets."""
        return partition_name(self.topic, self.partition)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, messages: Messages) -> int:
        """Add messages, and return their bytes."""
        size = messages.size
        self.parts.append(messages)
        self.position = messages.offset(-1) + 1
        self.at_end = False
        self.bytes += size
        self.note_answer()
        return size

    def note_answer(self) -> None:
        """Note that an answer has come that is no failure."""
        self.was_read, self.failed = True, None

    def fail(self, error: CdcError) -> None:
        """Note that the partition cannot be read, perhaps temporarily."""
        self.failed = Failed(error, self.failed.since_s if self.failed is not None else time.monotonic())

    def messages(self, most: int | None = None) -> Messages:
        """All messages, or the first ones with about `most` bytes; there has to be at least one."""
        self.parts = [Messages.concat(self.parts)]
        found = self.parts[0]
        if most is None or self.bytes <= most:
            return found
        sizes = np.cumsum(found.values.ends - found.values.begins, dtype=np.int64)
        return found.part(0, max(1, int(np.searchsorted(sizes, most))))

    def drop(self, count: int) -> int:
        """Remove the first `count` messages, because they are planned; return their bytes."""
        remaining = self.messages().part(count)
        self.parts = [remaining] if len(remaining) else []
        before, self.bytes = self.bytes, remaining.size
        return before - self.bytes

    def forget(self) -> None:
        """Drop the messages that are not planned yet; they will be read again."""
        self.position = self.messages().offset(0)
        self.parts, self.bytes, self.at_end = [], 0, False

    def drop_from(self, end: int) -> None:
        """Drop the messages from an offset on."""
        while self.parts and self.parts[-1].offset(-1) >= end:
            last = self.parts.pop()
            remaining = last.part(0, int(np.searchsorted(last.offsets, end)))
            self.bytes -= last.size - remaining.size
            self.parts += [remaining] if len(remaining) else []
            self.position = end


def collect(cluster: KafkaCluster, found: Fetched, pending: Mapping[tuple[str, int], Pending]) -> int:
    """Sort fetched messages into partitions, and return their bytes. Raises the source's errors."""
    size = 0
    for messages in found.messages:
        part = pending.get((messages.topic, messages.partition))
        size += part.add(messages) if part is not None else 0
    for failure in found.failures:
        _handle_failure(cluster, failure, pending.get((failure.topic, failure.partition)))
    return size


def _handle_failure(cluster: KafkaCluster, failure: Failure, part: Pending | None) -> None:
    code = failure.error.code()
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return  # about the coordinator of a group, which is not needed here
    if code == KafkaError._PARTITION_EOF:
        if part is not None:
            # Messages before and after the gap come in order, but perhaps in one answer of the client.
            part.at_end = part.position <= failure.offset
            part.position = max(part.position, failure.offset)
            part.note_answer()
        return
    if code in _OUT_OF_RANGE and part is not None:
        raise lost_offset(f"the messages from offset {part.position} on are gone", part)
    where = f"topic {failure.topic}" if failure.topic else cluster.where
    error = cluster.error(failure.error, "reading", where=where, need="READ and DESCRIBE")
    # A missing right may only be missing for a moment: brokers that start, or take over, learn of rights late.
    may_pass = error.retryable or (code == KafkaError.TOPIC_AUTHORIZATION_FAILED and part is not None and part.was_read)
    if not may_pass:
        raise error
    if part is not None:
        part.fail(error)


def assign(reader: Fetcher, parts: Iterable[Pending]) -> None:
    """Read these partitions, each from its position on."""
    reader.assign([(part.topic, part.partition, part.position) for part in parts])
