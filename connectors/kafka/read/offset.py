"""Where a batch begins and ends: an offset for each partition, and how much of the history counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.source import Offset
from connectors.kafka.formats.log_positions import LogPosition

_SCHEMAS, _REACHED, _WATCHED = "schemas", "reached", "watched"
_PLACES = 47
"""Bits for the offset in a sequence; the partition's number is above them."""


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """Where all partitions are.

    Attributes:
        schemas: how many entries of the history count.
        partitions: the next offset to read, by `topic/partition`.
        reached, watched: places of the server's log by partition, where statements are ordered by them (`Order`).
    """

    schemas: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[str, LogPosition] = field(default_factory=dict)
    watched: Mapping[str, LogPosition] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Offset) -> KafkaOffset:
        """The offset that `to_json` made."""
        partitions = {name: at for name, at in offset.items() if "/" in name}
        places = [
            {name: LogPosition(*place) for name, place in offset.get(kind, {}).items()} for kind in (_REACHED, _WATCHED)
        ]
        return cls(offset.get(_SCHEMAS, 0), partitions, *places)

    def to_json(self) -> Offset:
        """The offset as the engine keeps it."""
        places = {
            kind: {name: [place.log, place.server, place.at] for name, place in found.items()}
            for kind, found in ((_REACHED, self.reached), (_WATCHED, self.watched))
            if found
        }
        return {_SCHEMAS: self.schemas, **self.partitions, **places}


def partition_name(topic: str, partition: int) -> str:
    """`topic/partition`: the name of a partition in offsets."""
    return f"{topic}/{partition}"


def topic_partition(name: str) -> tuple[str, int]:
    """The topic and the partition of a name."""
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def sequence_base(number: int) -> int:
    """The sequence of the first message of the partition with this number; later ones have it plus their offset."""
    return number << _PLACES


def sequence_place(sequence: int) -> tuple[int, int]:
    """The partition's number and the offset of a sequence."""
    return sequence >> _PLACES, sequence & ((1 << _PLACES) - 1)
