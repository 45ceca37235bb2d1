"""Read ranges of offsets and decode them to change blocks. Runs in executors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cdc.block import ChangeBlock
from cdc.errors import PositionLost, SourceUnavailable
from cdc.process.stopwatch import in_phase
from cdc.retry import RetryPolicy
from cdc.source import Count
from connectors.kafka.client import KafkaCluster
from connectors.kafka.formats.groups import Messages
from connectors.kafka.read.decoding import MessageDecoder
from connectors.kafka.read.history import HistoryState
from connectors.kafka.read.pending import Pending
from connectors.kafka.read.range_reader import RangeReader
from connectors.kafka.read.ranges import Range
from connectors.kafka.read.topic_ids import TopicIds, topic_lost
from connectors.kafka.source_options import KafkaSourceOptions


class TopicReader:
    """Reads one split. Ranges are decoded one after the other, while the consumer fetches all of them."""

    def __init__(
        self,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        pipeline: str,
        known: HistoryState,
        count: Count,
    ) -> None:
        self._options, self._known, self._count = options, known, count
        self._ranges, self._topics = RangeReader(cluster, policy, options, pipeline, count), TopicIds(cluster, policy)
        self._decoder = MessageDecoder(cluster, policy, options, known, count)

    def blocks(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Iterator[ChangeBlock]:
        """The changes in the ranges, in order. `ids` identify the topics' logs. Raises SourceError."""
        recreated = self._recreated_topics(ranges, ids)
        try:
            for number, topic, partition, first, last in ranges:
                if topic in recreated:
                    continue
                part = Pending(topic, partition, first, was_read=True)
                for messages in self._messages(part, last):
                    yield from in_phase("decode", self._decoder.blocks(messages, number))
        except PositionLost:
            self._check_same(ids, recreated)
            raise
        finally:
            self._ranges.close()
            self._decoder.finish()
        self._check_same(ids, recreated)

    def _check_same(self, ids: Mapping[str, str], topics: Collection[str]) -> None:
        """Raise SourceUnavailable for a topic that was recreated since the begin.

        The next try omits the topic, or ends the run, as the options say.
        """
        recreated = self._topics.changed_topics({topic: id_ for topic, id_ in ids.items() if topic not in topics})
        if recreated:
            raise SourceUnavailable("the topic was recreated while it was read", where=f"topic {min(recreated)}")

    def _recreated_topics(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Collection[str]:
        """The topics recreated since their messages were planned. Raises PositionLost if the options say so."""
        recreated = self._topics.changed_topics(ids)
        if recreated and self._options.on_lost == "fail":
            raise topic_lost(recreated)
        for _, topic, _, first, last in ranges:
            if topic in recreated:
                self._count(f"messages-lost {topic}", last - first)
        return recreated.keys()

    def _without_counted(self, part: Pending, messages: Messages, last: Messages | None) -> Messages:
        """The messages without a tombstone at the begin, if its delete is the message before (`last`, or in the topic).

        So a delete counts only once, wherever ranges and answers of the broker are divided.
        """
        if messages.values.present[0] or not messages.keys.present[0]:
            return messages
        before = self._ranges.before(part, messages.offset(0)) if last is None else last
        if before is None:
            return messages
        pair = Messages.concat([before, messages.part(0, 1)])
        reading = self._decoder.formats.of(part.topic, messages).read(pair, self._known.table_of(part.topic))
        counted = not reading.counts and not any((group.images.messages == 1).any() for group in reading.groups)
        return messages.part(1) if counted else messages

    def _messages(self, part: Pending, last: int) -> Iterator[Messages]:
        """The messages of a partition from its position to before offset `last`."""
        before: Messages | None = None
        for messages in self._ranges.read(part, last):
            uncounted = self._without_counted(part, messages, before)
            before = messages.part(len(messages) - 1)
            if len(uncounted):
                yield uncounted
