"""Find the ranges of offsets that tasks read. Pure; a range is [partition's number, topic, partition, from, to]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.kafka.read.offset import KafkaOffset, topic_partition

Range = list[Any]

_FEWEST = 10_000
"""The least messages that are worth a task of their own."""


def ranges_of(begin: KafkaOffset, stop: KafkaOffset, numbers: Mapping[str, int]) -> list[Range]:
    """The ranges between two offsets, in the order of the partitions' numbers."""
    found = []
    for name in sorted(stop.partitions, key=numbers.__getitem__):
        # A partition of a recreated topic has the same name in both offsets, but begins where its new log begins.
        first, last = stop.begins.get(name, begin.partitions.get(name, 0)), stop.partitions[name]
        if last > first:
            found.append([numbers[name], *topic_partition(name), first, last])
    return found


def split_up(ranges: Sequence[Range], parallelism: int) -> list[list[Range]]:
    """Split the ranges, in order, into at most `parallelism` parts of similar size; a range may be divided."""
    total = sum(last - first for *_, first, last in ranges)
    parts = min(parallelism, max(1, total // _FEWEST)) if total else 0
    size = -(-total // parts) if parts else 0
    found: list[list[Range]] = []
    size_left = 0
    for number, topic, partition, first, last in ranges:
        while first < last:
            if size_left == 0:
                found.append([])
                size_left = size
            end = min(last, first + size_left)
            found[-1].append([number, topic, partition, first, end])
            size_left -= end - first
            first = end
    return found


def ids_of(ranges: Sequence[Range], ids: Mapping[str, str]) -> dict[str, str]:
    """By topic, the ids of the logs of the ranges."""
    return {topic: ids[topic] for _, topic, *_ in ranges if topic in ids}
