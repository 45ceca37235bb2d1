"""The offset where a batch begins or ends: one for each partition, and the number of history entries that count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from cdc.source import Offset
from connectors.kafka.formats.log_positions import SourceLogPosition

T = TypeVar("T")

_SCHEMAS, _REACHED, _WATCHED, _IDS, _BEGINS = "schemas", "reached", "watched", "ids", "begins"
_PLACES = 47
"""The bits of a sequence for the offset; those above are the partition's number."""


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """The positions of all partitions.

    Attributes:
        schemas: the number of history entries that count.
        partitions: the next offset to read, by `topic/partition`.
        reached, watched: by partition, positions in the server's log, if statements are ordered by them (`ReadOrder`).
        ids: by topic, the id that identifies the log of the offsets; empty for brokers that give topics no ids.
        begins: the first offset of the partitions that the batch before this offset was the first to read.
    """

    schemas: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[str, SourceLogPosition] = field(default_factory=dict)
    watched: Mapping[str, SourceLogPosition] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    begins: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Offset) -> KafkaOffset:
        """The offset in the JSON value that `to_json` wrote."""
        partitions = {name: at for name, at in offset.items() if "/" in name}
        reached, watched = (
            {name: SourceLogPosition(*position) for name, position in offset.get(kind, {}).items()}
            for kind in (_REACHED, _WATCHED)
        )
        ids, begins = offset.get(_IDS, {}), offset.get(_BEGINS, {})
        return cls(offset.get(_SCHEMAS, 0), partitions, reached, watched, ids, begins)

    def to_json(self) -> Offset:
        """The offset in the form in which the engine keeps it."""
        positions = {
            kind: {name: [position.log, position.server, position.at] for name, position in found.items()}
            for kind, found in ((_REACHED, self.reached), (_WATCHED, self.watched))
            if found
        }
        named = {kind: dict(found) for kind, found in ((_IDS, self.ids), (_BEGINS, self.begins)) if found}
        return {_SCHEMAS: self.schemas, **self.partitions, **positions, **named}

    @property
    def topics(self) -> set[str]:
        """The topics of all partitions."""
        return {topic_partition(name)[0] for name in self.partitions}

    def without(self, names: Collection[str]) -> KafkaOffset:
        """The same offset without these partitions, or all partitions of these topics."""
        if not names:
            return self

        def without_names(found: Mapping[str, T]) -> dict[str, T]:
            return {
                name: item for name, item in found.items()
                if name not in names and topic_partition(name)[0] not in names
            }  # fmt: skip

        ids = {topic: id_ for topic, id_ in self.ids.items() if topic not in names}
        return KafkaOffset(
            self.schemas,
            without_names(self.partitions),
            without_names(self.reached),
            without_names(self.watched),
            ids,
            without_names(self.begins),
        )


def partition_name(topic: str, partition: int) -> str:
    """The name of a partition in offsets, `topic/partition`."""
    return f"{topic}/{partition}"


def topic_partition(name: str) -> tuple[str, int]:
    """The topic and the partition in a name."""
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def sequence_base(number: int) -> int:
    """The sequence of offset 0 in the partition with this number; later messages add their offset to it."""
    return number << _PLACES


def sequence_position(sequence: int) -> tuple[int, int]:
    """The partition's number and the offset in a sequence."""
    return sequence >> _PLACES, sequence & ((1 << _PLACES) - 1)
