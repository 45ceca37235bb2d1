"""Messages from a consumer: as they come, sorted by partition, errors explained."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from cdc.errors import PositionLost
from connectors.kafka.client import Cluster
from connectors.kafka.formats.groups import Messages
from connectors.kafka.read.offset import partition_name

_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_LOST_HINT = (
    "the topic's retention has removed messages that were not read yet, or it was made anew: start anew with an empty "
    "state directory, or set scan.on-lost: earliest to go on with what there is"
)


class Lost(PositionLost):
    """The offset to read next is not there; `name` is the partition."""

    def __init__(self, message: str, *, where: str = "", hint: str = "", name: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.name = name


def reader(cluster: Cluster, pipeline: str, settings: Mapping[str, Any]) -> Consumer:
    """A consumer that is told what to read, and commits nothing."""
    own = {
        "group_id": f"cdc-{pipeline}", "enable_auto_commit": False, "enable_auto_offset_store": False,
        "auto_offset_reset": "error", "enable_partition_eof": True, "max_poll_interval_ms": 86_400_000,
        "fetch_wait_max_ms": 100, "queued_max_messages_kbytes": 32 << 10, "fetch_error_backoff_ms": 50,
    }  # fmt: skip
    given = {name.replace(".", "_"): value for name, value in settings.items() if name in _OURS}
    return cluster.consumer(**{"isolation_level": "read_committed", **own, **given})


_OURS = frozenset({"isolation.level", "group.id", "fetch.wait.max.ms", "queued.max.messages.kbytes"})
"""Settings of the pipeline file that stand before ours."""


@dataclass(slots=True)
class Pending:
    """Messages of one partition that were read and not planned yet, and where reading goes on.

    Attributes:
        at_end: nothing came after `position` when it was last asked for.
    """

    topic: str
    partition: int
    position: int
    records: list[Message] = field(default_factory=list)
    at_end: bool = False
    bytes: int = 0

    @property
    def name(self) -> str:
        """As in offsets."""
        return partition_name(self.topic, self.partition)

    def messages(self) -> Messages:
        """What was read, as formats take it."""
        return messages_of(self.topic, self.partition, self.records)

    def drop(self, count: int) -> int:
        """The first `count` messages are planned; how many bytes they have."""
        size = self.bytes if count == len(self.records) else sum(map(len, self.records[:count]))
        self.bytes -= size
        del self.records[:count]
        return size


class _Times(Sequence[int]):
    """When messages were written, asked for one by one."""

    def __init__(self, records: Sequence[Message]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Times(self._records[index])
        kind, at = self._records[index].timestamp()
        return 0 if kind == TIMESTAMP_NOT_AVAILABLE else at


def offset_of(message: Message) -> int:
    """A message's offset; one that was read has one."""
    offset = message.offset()
    return -1 if offset is None else offset


def messages_of(topic: str, partition: int, records: Sequence[Message]) -> Messages:
    """Records of one partition, as formats take them."""
    offsets: list[Any] = list(map(Message.offset, records))
    keys, values = list(map(Message.key, records)), list(map(Message.value, records))
    return Messages(topic, partition, offsets, _Times(records), keys, values)


def collect(cluster: Cluster, found: Sequence[Message], pending: Mapping[tuple[str, int], Pending]) -> int:
    """Sort what a consumer gave into partitions; how many bytes came. Raises the source's errors."""
    bad = [message for message in found if message.error() is not None] if any(map(Message.error, found)) else []
    good = [message for message in found if message.error() is None] if bad else found
    size = 0
    for part, records in _by_partition(good, pending):
        more = sum(map(len, records))
        part.records += records
        part.position = offset_of(records[-1]) + 1
        part.at_end = False
        part.bytes += more
        size += more
    for message in bad:
        _take_error(cluster, message, message.error(), pending)
    return size


def _by_partition(
    found: Sequence[Message], pending: Mapping[tuple[str, int], Pending]
) -> Iterator[tuple[Pending, Sequence[Message]]]:
    """Runs of messages of one partition: a client gives many at once of each."""
    names = zip(map(Message.topic, found), map(Message.partition, found), strict=True)
    at = 0
    for name, run in itertools.groupby(names):
        count = sum(1 for _ in run)
        part = pending.get((name[0] or "", name[1] or 0))
        if part is not None:
            yield part, found[at : at + count]
        at += count


def _take_error(
    cluster: Cluster, message: Message, error: KafkaError | None, pending: Mapping[tuple[str, int], Pending]
) -> None:
    topic, partition = message.topic() or "", message.partition() or 0
    part = pending.get((topic, partition))
    if error is None or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return  # the client asks for a group's coordinator, which nothing here needs
    if error.code() == KafkaError._PARTITION_EOF:
        if part is not None:
            # What came before and what comes after arrive in their order, but may be one answer of the client.
            part.at_end = part.position <= offset_of(message)
            part.position = max(part.position, offset_of(message))
        return
    if error.code() in _OUT_OF_RANGE and part is not None:
        raise Lost(
            f"the messages from offset {part.position} on are gone", where=f"{topic}-{partition}", hint=_LOST_HINT,
            name=part.name,
        )  # fmt: skip
    where = f"topic {topic}" if topic else cluster.where
    found = cluster.error(error, "reading", where=where, need="READ and DESCRIBE")
    if not found.retryable:  # else the client tries again by itself; who waits for it has a limit
        raise found


def assign(consumer: Consumer, parts: Iterable[Pending]) -> None:
    """Read these partitions, each from its position on."""
    consumer.assign([TopicPartition(part.topic, part.partition, part.position) for part in parts])
