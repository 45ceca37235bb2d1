"""Reads ranges of offsets and makes change blocks of them. Executor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from cdc.block import ChangeBlock
from cdc.errors import CorruptLog, PositionLost, SchemaUnknown, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableSchema
from cdc.source import Count
from cdc.timing import in_phase
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.fetch.fetcher import Fetcher
from connectors.kafka.formats.blocks import Sequenced, block_of
from connectors.kafka.formats.groups import Format, Messages, TableGroup
from connectors.kafka.read import records, startup
from connectors.kafka.read.dead_letters import DeadLetterTopic
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.history import HistoryState
from connectors.kafka.read.offset import sequence_base
from connectors.kafka.read.ranges import Range
from connectors.kafka.read.records import OffsetLost, Pending
from connectors.kafka.read.statements import concerns, is_left_out, place_of
from connectors.kafka.read.tables import TopicTables
from connectors.kafka.read.topic_ids import TopicIds, lost
from connectors.kafka.source_options import KafkaSourceOptions

NOT_CARRIED_OUT = "ddl-not-carried-out"
_AT_ONCE = 5_000
_MOST_BYTES = 32 << 20
"""Messages and bytes that are decoded at once, about."""
_WAIT_S = 0.5
_LOOK_BACK = 8
"""How far before a range the message before it is looked for: markers of transactions have offsets, too."""


class TopicReader:
    """Reads for one split. Ranges come one after the other, while the consumer fetches them all."""

    def __init__(
        self,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        pipeline: str,
        known: HistoryState,
        count: Count,
    ) -> None:
        self._cluster, self._options, self._pipeline = cluster, options, pipeline
        # The client connects again by itself: nothing is asked during a pause, so pauses are short.
        self._policy = replace(policy, longest_pause_s=_WAIT_S)
        self._known, self._count = known, count
        self._formats, self._tables = Formats(options, options.registry(policy, SOURCE)), TopicTables(options)
        self._letters = DeadLetterTopic(cluster, policy, options.dead_letter_topic)

    def blocks(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Iterator[ChangeBlock]:
        """The changes of the ranges in their order. `ids` identify the topics' logs. Raises SourceError."""
        topics = TopicIds(self._cluster, self._policy)
        gone = self._recreated_topics(topics, ranges, ids)
        reader = records.fetcher(self._cluster, self._pipeline)
        try:
            for number, topic, partition, first, last in ranges:
                if topic in gone:
                    continue
                part = Pending(topic, partition, first, was_read=True)
                for messages in self._messages(reader, part, last):
                    yield from in_phase("decode", self._decoded(messages, number))
        finally:
            reader.close()
            self._letters.finish()
        recreated = topics.changed_topics({topic: id_ for topic, id_ in ids.items() if topic not in gone})
        if recreated:
            raise SourceUnavailable("the topic was recreated while it was read", where=f"topic {min(recreated)}")

    def _recreated_topics(self, topics: TopicIds, ranges: Sequence[Range], ids: Mapping[str, str]) -> Collection[str]:
        """The topics that are not those whose messages were planned. Raises PositionLost, when the options say so."""
        gone = topics.changed_topics(ids)
        if gone and self._options.on_lost == "fail":
            raise lost(gone)
        for _, topic, _, first, last in ranges:
            if topic in gone:
                self._count(f"messages-lost {topic}", last - first)
        return gone.keys()

    def _without_counted(self, part: Pending, messages: Messages, last: Messages | None) -> Messages:
        """The messages without a tombstone at their begin whose delete is the message before: `last`, or in the topic.

        So a delete counts once, wherever ranges and answers of the broker are cut.
        """
        if messages.values.present[0] or not messages.keys.present[0]:
            return messages
        before = self._before(part, messages.place(0)) if last is None else last
        if before is None:
            return messages
        pair = Messages.concat([before, messages.part(0, 1)])
        reading = self._formats.of(part.topic, messages).read(pair, self._known.table_of(part.topic))
        counted = not reading.counts and not any((group.images.messages == 1).any() for group in reading.groups)
        return messages.part(1) if counted else messages

    def _before(self, part: Pending, first: int) -> Messages | None:
        """The message before an offset; None when there is none near it."""
        before = Pending(part.topic, part.partition, max(0, first - _LOOK_BACK), was_read=True)
        backoff = Backoff(self._policy, f"{self._cluster.where}: reading {part.topic}-{part.partition}")
        reader = records.fetcher(self._cluster, self._pipeline)
        try:
            records.assign(reader, [before])
            while before.position < first:
                found = reader.fetch(_LOOK_BACK, _WAIT_S)
                records.collect(self._cluster, found, {(part.topic, part.partition): before})
                if not found and not backoff.pause("no answer"):
                    raise SourceUnavailable("no answer while reading", where=f"{part.topic}-{part.partition}")
        except OffsetLost:
            return None
        finally:
            reader.close()
        before.drop_from(first)
        return before.messages().part(len(before) - 1) if before.parts else None

    def _messages(self, reader: Fetcher, part: Pending, last: int) -> Iterator[Messages]:
        """The messages of a partition from its position on, up to and without offset `last`."""
        before: Messages | None = None
        for messages in self._read(reader, part, last):
            left = self._without_counted(part, messages, before)
            before = messages.part(len(messages) - 1)
            if len(left):
                yield left

    def _read(self, reader: Fetcher, part: Pending, last: int) -> Iterator[Messages]:
        pending = {(part.topic, part.partition): part}
        records.assign(reader, [part])
        place = f"{part.topic}-{part.partition}"
        backoff = Backoff(self._policy, f"{self._cluster.where}: reading {place}")
        while part.position < last:
            before = part.position
            found = reader.fetch(_AT_ONCE, _WAIT_S)
            try:
                records.collect(self._cluster, found, pending)
            except OffsetLost as error:
                self._jump(reader, part, error)
                continue
            if part.position == before:
                self._check_end(part, last)
                if not backoff.pause("no answer"):
                    away = SourceUnavailable("no answer while reading", where=place)
                    raise part.failed.error if part.failed is not None else away
                if part.failed is not None:
                    records.assign(reader, [part])
                continue
            backoff = Backoff(self._policy, f"{self._cluster.where}: reading {place}")
            if len(part) >= _AT_ONCE or part.bytes >= _MOST_BYTES:
                yield from self._read_up_to(part, last)
        yield from self._read_up_to(part, last)

    def _check_end(self, part: Pending, last: int) -> None:
        """Raise PositionLost when the topic ends before what was planned, as one that was recreated may."""
        if not part.at_end:
            return
        high = self._offset(startup.ends_of, part)
        if high < last:
            raise PositionLost(
                f"the topic ends at offset {high}, and held messages up to {last} when the batch was planned",
                where=f"{part.topic}-{part.partition}",
                hint="it was recreated, or its broker has lost messages: start over with an empty state directory",
            )

    def _offset(self, ask: Callable[..., dict[str, int]], part: Pending) -> int:
        asker = records.asker(self._cluster, self._pipeline)
        try:
            return ask(self._cluster, self._policy, asker, [part.name])[part.name]
        finally:
            asker.close()

    def _read_up_to(self, part: Pending, last: int) -> Iterator[Messages]:
        part.drop_from(last)
        if part.parts:
            yield part.messages()
            part.parts, part.bytes = [], 0

    def _jump(self, reader: Fetcher, part: Pending, error: OffsetLost) -> None:
        if self._options.on_lost == "fail":
            raise error
        low = self._offset(startup.beginnings_of, part)
        if low <= part.position:  # the log has been cut at its end: what is planned is not there
            raise error
        self._count(f"messages-lost {part.topic}", low - part.position)
        part.position = low
        records.assign(reader, [part])

    def _decoded(self, messages: Messages, number: int) -> Iterator[ChangeBlock]:
        written = self._formats.of(messages.topic, messages)
        reading = written.read(messages, self._known.table_of(messages.topic))
        sequenced = Sequenced(sequence_base(number) + messages.offsets)
        self._refuse(messages, reading.unreadable)
        left = sum(
            concerns(statement, self._tables)
            and is_left_out(statement, place_of(messages, statement) in self._known.carried)
            for statement in reading.statements
        )
        if left:
            self._count(f"{NOT_CARRIED_OUT} {messages.topic}", left)
        for reason, times in reading.counts.items():
            self._count(reason, times)
        for group in reading.groups:
            if self._tables.captures(group.table):
                block = self._block(messages, self._tables.described(group, written), written, sequenced)
                if block is not None and len(block):
                    yield block

    def _block(
        self, messages: Messages, group: TableGroup, written: Format, sequenced: Sequenced
    ) -> ChangeBlock | None:
        refused = self._tables.refusal_of(group, self._known)
        if refused is not None:
            self._refuse(messages, dict.fromkeys(group.images.messages.tolist(), f"{group.table}: {refused.message}"))
            return None
        schema = self._schema(group, messages)
        judge = self._tables.judge(group.table, schema)
        block, left_out = block_of(group, schema, written.natural, sequenced, self._count, judge)
        self._refuse(messages, left_out)
        return block

    def _schema(self, group: TableGroup, messages: Messages) -> TableSchema:
        schema = self._known.schemas.get(group.table)
        if schema is None:
            raise SchemaUnknown(
                f"the schema of {group.table} was not known when the batch was planned",
                where=messages.where(int(group.images.messages[0])),
                hint="the topic has changed since: start over with an empty state directory",
            )
        return schema

    def _refuse(self, messages: Messages, unreadable: Mapping[int, str]) -> None:
        """Messages that cannot be read, as `unreadable-messages` says. Raises CorruptLog."""
        if not unreadable:
            return
        if self._options.unreadable == "fail":
            number, reason = min(unreadable.items())
            raise CorruptLog(
                f"a message cannot be read: {reason}",
                where=messages.where(number),
                hint="set unreadable-messages to skip or dead-letter to go on without such messages",
            )
        for number, reason in unreadable.items():
            self._letters.add(messages, number, reason)
        name = "unreadable-message" if self._options.unreadable == "skip" else "unreadable-message-dead-letter"
        self._count(f"{name} {messages.topic}", len(unreadable))
