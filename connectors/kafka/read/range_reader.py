"""Read the messages in a range of offsets from the broker. Runs in executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cdc.errors import SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.source import Count
from connectors.kafka.client import KafkaCluster
from connectors.kafka.fetch.fetcher import Fetcher
from connectors.kafka.formats.groups import Messages
from connectors.kafka.read import consumers, startup
from connectors.kafka.read.pending import OffsetLost, Pending, assign, collect, lost_offset
from connectors.kafka.source_options import KafkaSourceOptions

_AT_ONCE = 5_000
_MOST_BYTES = 32 << 20
"""The approximate numbers of messages and bytes that are decoded at once."""
_WAIT_S = 0.5
_LOOK_BACK = 8
"""How many offsets before a range its previous message is looked for: markers of transactions have offsets too."""


class RangeReader:
    """Reads ranges of partitions. `count` counts lost messages, if the options allow them."""

    def __init__(
        self, cluster: KafkaCluster, policy: RetryPolicy, options: KafkaSourceOptions, pipeline: str, count: Count
    ) -> None:
        self._cluster, self._options, self._pipeline, self._count = cluster, options, pipeline, count
        # The client reconnects by itself. It is not polled during a pause, so pauses are short.
        self._policy = replace(policy, longest_pause_s=_WAIT_S)

        self._reader: Fetcher | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def before(self, part: Pending, first: int) -> Messages | None:
        """The message before an offset; None when there is none close to it."""
        before = Pending(part.topic, part.partition, max(0, first - _LOOK_BACK), was_read=True)
        backoff = Backoff(self._policy, f"{self._cluster.where}: reading {part.topic}-{part.partition}")
        reader = consumers.fetcher(self._cluster, self._pipeline)
        try:
            assign(reader, [before])
            while before.position < first:
                found = reader.fetch(_LOOK_BACK, _WAIT_S)
                collect(self._cluster, found, {(part.topic, part.partition): before})
                if not found and not backoff.pause("no answer"):
                    raise SourceUnavailable("no answer while reading", where=f"{part.topic}-{part.partition}")
        except OffsetLost:
            return None
        finally:
            reader.close()
        before.drop_from(first)
        return before.messages().part(len(before) - 1) if before.parts else None

    def read(self, part: Pending, last: int) -> Iterator[Messages]:
        """The messages of a partition from its position to before offset `last`. Raises SourceError."""
        reader = self._reader = self._reader or consumers.fetcher(self._cluster, self._pipeline)
        pending = {(part.topic, part.partition): part}
        assign(reader, [part])
        partition = f"{part.topic}-{part.partition}"
        backoff = Backoff(self._policy, f"{self._cluster.where}: reading {partition}")
        while part.position < last:
            before = part.position
            found = reader.fetch(_AT_ONCE, _WAIT_S)
            try:
                collect(self._cluster, found, pending)
            except OffsetLost as error:
                self._jump(reader, part, last, error)
                continue
            if part.position == before:
                self._check_end(part, last)
                if not backoff.pause("no answer"):
                    away = SourceUnavailable("no answer while reading", where=partition)
                    raise backoff.given_up(away if part.failed is None else part.failed.error)
                if part.failed is not None:
                    assign(reader, [part])
                continue
            backoff = Backoff(self._policy, f"{self._cluster.where}: reading {partition}")
            if len(part) >= _AT_ONCE or part.bytes >= _MOST_BYTES:
                yield from self._read_up_to(part, last)
        yield from self._read_up_to(part, last)

    def _check_end(self, part: Pending, last: int) -> None:
        """Omit what was planned beyond the end of a topic, which was perhaps recreated. Raises OffsetLost."""
        if not part.at_end:
            return
        high = self._offset(startup.ends_of, part)
        if high < last:
            ends = f"the topic ends at offset {high}, and held messages up to {last} when the batch was planned"
            self._leave_out(part, last, lost_offset(ends, part))

    def _leave_out(self, part: Pending, last: int, error: OffsetLost) -> None:
        """Continue without the planned messages that are missing, if the options say so; else raise `error`.

        The plan of the next batch finds that the log ends before its begin, and starts with the log's beginning.
        """
        if self._options.on_lost == "fail":
            raise error
        self._count(f"messages-lost {part.topic}", last - part.position)
        part.position = last

    def _offset(self, ask: Callable[..., dict[str, int]], part: Pending) -> int:
        consumer = consumers.metadata_consumer(self._cluster, self._pipeline)
        try:
            return ask(self._cluster, self._policy, consumer, [part.name])[part.name]
        finally:
            consumer.close()

    def _read_up_to(self, part: Pending, last: int) -> Iterator[Messages]:
        part.drop_from(last)
        if part.parts:
            yield part.messages()
            part.parts, part.bytes = [], 0

    def _jump(self, reader: Fetcher, part: Pending, last: int, error: OffsetLost) -> None:
        low = self._offset(startup.beginnings_of, part)
        if low <= part.position or self._options.on_lost == "fail":
            self._leave_out(part, last, error)
            return
        self._count(f"messages-lost {part.topic}", low - part.position)
        part.position = low
        assign(reader, [part])
