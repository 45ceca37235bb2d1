"""Where a batch begins and ends: an offset for each partition, and how much of the history counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.source import Offset

_SCHEMAS = "schemas"
_PLACES = 47
"""Bits for the offset in a sequence; the partition's number is above them."""


@dataclass(frozen=True, slots=True)
class KafkaOffset:
    """`partitions` holds the next offset to read, by `topic/partition`; `schemas` the entries of the history."""

    schemas: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Offset) -> KafkaOffset:
        """The offset that `to_json` made."""
        return cls(offset.get(_SCHEMAS, 0), {name: at for name, at in offset.items() if "/" in name})

    def to_json(self) -> Offset:
        """The offset as the engine keeps it."""
        return {_SCHEMAS: self.schemas, **self.partitions}


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
