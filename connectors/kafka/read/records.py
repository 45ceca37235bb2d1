"""Messages from a consumer: as they come, sorted by partition, errors explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    def drop(self, count: int) -> None:
        """The first `count` messages are planned."""
        self.bytes -= sum(len(record) for record in self.records[:count])
        del self.records[:count]


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
    return Messages(
        topic, partition,
        [offset_of(record) for record in records], _Times(records),
        [record.key() for record in records], [record.value() for record in records],
    )  # fmt: skip


def collect(cluster: Cluster, found: Iterable[Message], pending: Mapping[tuple[str, int], Pending]) -> int:
    """Sort what a consumer gave into partitions; how many bytes came. Raises the source's errors."""
    size = 0
    for message in found:
        error = message.error()
        topic, partition = message.topic() or "", message.partition() or 0
        if error is not None:
            _take_error(cluster, message, error, pending)
            continue
        part = pending.get((topic, partition))
        if part is None:
            continue
        part.records.append(message)
        part.position = offset_of(message) + 1
        part.at_end = False
        part.bytes += len(message)
        size += len(message)
    return size


def _take_error(
    cluster: Cluster, message: Message, error: KafkaError, pending: Mapping[tuple[str, int], Pending]
) -> None:
    topic, partition = message.topic() or "", message.partition() or 0
    part = pending.get((topic, partition))
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return  # the client asks for a group's coordinator, which nothing here needs
    if error.code() == KafkaError._PARTITION_EOF:
        if part is not None:
            part.at_end = True
            part.position = max(part.position, offset_of(message))
        return
    if error.code() in _OUT_OF_RANGE and part is not None:
        raise Lost(
            f"the messages from offset {part.position} on are gone", where=f"{topic}-{partition}", hint=_LOST_HINT,
            name=part.name,
        )  # fmt: skip
    where = f"topic {topic}" if topic else cluster.where
    raise cluster.error(error, "reading", where=where, need="READ and DESCRIBE")


def assign(consumer: Consumer, parts: Iterable[Pending]) -> None:
    """Read these partitions, each from its position on."""
    consumer.assign([TopicPartition(part.topic, part.partition, part.position) for part in parts])
