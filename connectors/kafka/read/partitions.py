"""The partitions that the planner reads: which exist, how far each is read, and whether their logs are still the same.

Stream reader process. Messages are fetched ahead of the batches; those that no batch has taken yet are in `Pending`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer

from cdc.retry import RetryPolicy
from connectors.kafka.client import KafkaCluster
from connectors.kafka.fetch.fetcher import Fetched, Fetcher
from connectors.kafka.read import consumers, startup
from connectors.kafka.read.offset import KafkaOffset, topic_partition
from connectors.kafka.read.pending import OffsetLost, Pending, assign, collect, lost_offset
from connectors.kafka.read.topic_ids import TopicIds, topic_lost
from connectors.kafka.source_options import KafkaSourceOptions

_ASK_AGAIN_S = 2.0
"""The interval in seconds at which partitions that cannot be read are tried again."""


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    """Partitions that a batch is the first to read, with their begins. `at` is the begin of the batch with them."""

    at: KafkaOffset
    new: Mapping[str, int]


class Partitions:
    """The partitions of a run. Not thread safe, except for `close` and `lag`.

    Args:
        notices: takes the messages that are logged only once.

    Attributes:
        parts: by topic and number, the messages of each partition that no batch has taken yet.
        ends: by name, where reading ends in a bounded run; None in an unbounded one.
        behind: the names of partitions that wait for others, and are not read meanwhile.
        recreated: the topics and partitions that turned out to have another log while they were fetched, with what
            happened, as in `changed_topics`.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        pipeline: str,
        notices: list[str],
    ) -> None:
        self._cluster, self._policy, self._options, self._pipeline = cluster, policy, options, pipeline
        self._notices = notices
        self._ids = TopicIds(cluster, policy)
        self._reader: Fetcher | None = None
        self._consumer: Consumer | None = None
        self.parts: dict[tuple[str, int], Pending] = {}
        self.ends: Mapping[str, int] | None = None
        self.behind = set[str]()
        self.recreated: Mapping[str, str] = {}
        self._all_ids: Mapping[str, str] = {}
        self._looked_s = self._retried_s = 0.0
        self._bytes = self._messages = 1

    def bound(self) -> None:
        """From now on, ignore messages that come after the present ends."""
        names = startup.find_partitions(self._cluster, self._policy, self._options)
        self.ends = self.ends_of(names)

    def changed_topics(self, ids: Mapping[str, str]) -> Mapping[str, str]:
        """The topics that have other ids now; everything read before is of the old topics.

        Raises PositionLost when the options say so, SourceError.
        """
        changed = self._ids.changed_topics({topic: id_ for topic, id_ in ids.items() if self._options.reads(topic)})
        if changed and self._options.on_lost == "fail":
            raise topic_lost(changed)
        return changed

    def cut_partitions(self, at: KafkaOffset) -> Mapping[str, str]:
        """The partitions whose log ends before `at`, because a broker has lost messages.

        For bounded runs, in which no fetch from there would tell.

        Raises PositionLost when the options say so, SourceError.
        """
        limits = self.ends or {}
        unfinished = [name for name, position in at.partitions.items() if position > limits.get(name, position)]
        ends = self._offsets(startup.ends_of, unfinished) if unfinished else {}
        cut = [Pending(*topic_partition(name), at.partitions[name]) for name in unfinished]
        found = {part.name: _cut(ends[part.name], part) for part in cut if part.position > ends[part.name]}
        if found and self._options.on_lost == "fail":
            part = next(part for part in cut if part.name in found)
            raise lost_offset(f"the partition {found[part.name]}", part)
        return found

    def begin(self, start: KafkaOffset, changed: Mapping[str, str]) -> KafkaOffset:
        """Continue reading from `start`, without the topics and partitions of `changed`; return that offset.

        The changed ones are looked for at once.
        """
        for name, what in sorted(changed.items()):
            is_topic = "/" not in name
            then = "a new one is read from its beginning" if is_topic else "what is there is read from its beginning"
            self._notices.append(
                f"{name}: the {'topic' if is_topic else 'partition'} {what}; its unread messages are lost, and "
                f"{then} (scan.on-lost: earliest)"
            )
        at = start.without(changed)
        if changed:
            self._looked_s = 0.0
        if changed and self.ends is not None:
            self.bound()
        self.parts, self.behind, self.recreated, self._all_ids = {}, set(), {}, at.ids
        self._add({name: offset for name, offset in at.partitions.items() if self._reads(name)})
        return at

    def _reads(self, name: str) -> bool:
        """Whether a partition's topic is still one to read; its offset is kept, in case it becomes one again."""
        return self._options.reads(topic_partition(name)[0])

    @property
    def is_search_due(self) -> bool:
        """Whether it is time to look for new partitions."""
        return not self._looked_s or time.monotonic() - self._looked_s >= self._options.discovery_interval_s

    def find(self, at: KafkaOffset) -> FoundPartitions:
        """Look for new partitions, when it is time to."""
        if not self.is_search_due:
            return FoundPartitions(at, {})
        self._looked_s = time.monotonic()
        names = startup.find_partitions(self._cluster, self._policy, self._options)
        new = [name for name in names if name not in at.partitions and (self.ends is None or name in self.ends)]
        if not new:
            return FoundPartitions(at, {})
        ids = {**self._ids.fetch({topic_partition(name)[0] for name in new}), **at.ids}
        found = self._offsets(startup.beginnings_of, new)
        # Assigning again continues from each partition's position, so the messages not planned yet are kept.
        self._add(found)
        return FoundPartitions(KafkaOffset(at.schemas, {**at.partitions, **found}, at.reached, at.watched, ids), found)

    def known_ids(self, at: KafkaOffset) -> Mapping[str, str]:
        """The ids of all topics of an offset; asks for those that it lacks."""
        missing = at.topics - at.ids.keys()
        self._all_ids = {**self._ids.fetch(missing), **at.ids}
        return self._all_ids

    def _add(self, positions: Mapping[str, int]) -> None:
        for name, at in positions.items():
            topic, number = topic_partition(name)
            self.parts[topic, number] = Pending(topic, number, at)
        self.assign()

    def assign(self) -> None:
        """Read all partitions that do not wait for others, each from its position on."""
        assign(self._fetcher(), [part for part in self.parts.values() if part.name not in self.behind])

    def fetch(self, most: int, wait_s: float) -> tuple[Fetched, int]:
        """Read more; return what came, and the number of bytes. Raises SourceError."""
        found = self._fetcher().fetch(most, wait_s)
        size = self._collect(found)
        failed = [part.failed for part in self.parts.values() if part.failed is not None]
        now = time.monotonic()
        for failure in failed:
            if now - failure.since_s >= self._policy.timeout_s:
                raise failure.error
        if failed and now - self._retried_s >= _ASK_AGAIN_S:
            self._retried_s = now
            self.assign()
        return found, size

    def _collect(self, found: Fetched) -> int:
        try:
            size = collect(self._cluster, found, self.parts)
        except OffsetLost as error:
            self._jump(error)
            return 0
        self._bytes += size
        self._messages += found.count
        if self.ends is not None:
            for part in self.parts.values():
                part.drop_from(self.ends.get(part.name, 0))
        return size

    def _jump(self, error: OffsetLost) -> None:
        """Continue at the first existing message if the options say so; else raise `error`.

        Does nothing about a topic that has another log: see `recreated`.
        """
        self.recreated = self.changed_topics(self._all_ids)
        if self.recreated:
            return
        if self._options.on_lost == "fail":
            raise error
        part = self.parts[topic_partition(error.name)]
        low = self._offsets(startup.beginnings_of, [part.name])[part.name]
        if low <= part.position:  # the same offsets now belong to other messages, as in a new topic
            self.recreated = {part.name: _cut(self._offsets(startup.ends_of, [part.name])[part.name], part)}
            return
        self._notices.append(
            f"{part.topic}-{part.partition}: messages from offset {part.position} to {low} are missing, reading "
            f"continued at {low} (scan.on-lost: earliest)"
        )
        part.position = low
        self.assign()

    def postpone(self, part: Pending) -> None:
        """Drop messages that wait for other partitions, to leave them the room; they are read again later."""
        self.behind.add(part.name)
        part.forget()
        self.assign()

    def stop_waiting(self) -> None:
        """Resume the partitions that waited for others."""
        if self.behind:
            self.behind.clear()
            self.assign()

    def all_read(self, read: int) -> bool:
        """Whether a batch, of which `read` messages are here, gets no more messages."""
        if self.ends is None:
            return read > 0 and all(part.at_end for part in self.parts.values())
        return all(
            part.at_end or part.position >= self.ends.get(part.name, 0) or part.name in self.behind
            for part in self.parts.values()
        )

    def ends_of(self, names: Sequence[str]) -> Mapping[str, int]:
        """The present ends of partitions, but at most where this run ends."""
        if self._consumer is None:
            self._consumer = consumers.metadata_consumer(self._cluster, self._pipeline)
        found = startup.ends_of(self._cluster, self._policy, self._consumer, names)
        limits = self.ends
        return found if limits is None else {name: min(at, limits.get(name, 0)) for name, at in found.items()}

    def _offsets(self, ask: Callable[..., dict[str, int]], names: Sequence[str]) -> dict[str, int]:
        """Ask for offsets of partitions."""
        consumer = consumers.metadata_consumer(self._cluster, self._pipeline)
        try:
            return ask(self._cluster, self._policy, consumer, names)
        finally:
            consumer.close()

    def _fetcher(self) -> Fetcher:
        if self._reader is None:
            self._reader = consumers.fetcher(self._cluster, self._pipeline)
        return self._reader

    def release_memory(self) -> None:
        """Return memory to the system, because nothing will be fetched for a while."""
        reader = self._reader
        if reader is not None:
            reader.release_memory()

    def lag(self, planned: int) -> int:
        """The approximate bytes that no batch has: messages times their average size. `planned` messages count too."""
        if self._reader is None:
            return 0
        read_ahead = planned
        for part in list(self.parts.values()):
            read_ahead += len(part)
            marks = self._reader.marks(part.topic, part.partition)
            if marks is not None and marks[1] > part.position:
                read_ahead += marks[1] - part.position
        return read_ahead * self._bytes // self._messages

    def close(self) -> None:
        """Close the connections."""
        reader, self._reader = self._reader, None
        consumer, self._consumer = self._consumer, None
        if reader is not None:
            reader.close()
        if consumer is not None:
            consumer.close()


def _cut(end: int, part: Pending) -> str:
    return f"ends at offset {end}, before offset {part.position}, which is the next to be read"
