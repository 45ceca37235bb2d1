"""Topics in memory behind the source's own client calls: what a broker would give, without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, TopicPartition

from cdc import events as on
from cdc.block import RowKind
from cdc.schema import SchemaChange
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.fetch.fetcher import Failure, Fetched
from connectors.kafka.formats.groups import Messages
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source import KafkaSource
from connectors.kafka.source_options import KafkaSourceOptions

Record = tuple[bytes | None, bytes | None]
"""Key and value."""


class TopicLog:
    """Messages of topics by partition; stands where the source has its cluster."""

    where = "in memory"
    settings = SimpleNamespace(client={})

    def __init__(self, **partitions: int) -> None:
        names = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self.logs = {name: list[Record]() for name in names}
        self.ids = {topic: f"{topic}-1" for topic in partitions}
        self.failing: list[int] = []
        """Codes of errors that the next answers are, of every partition."""
        self.error = KafkaCluster(KafkaSettings("h:1"), SOURCE).error

    def write(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Add messages without a key."""
        self.logs[topic, partition] += [(None, value) for value in values]

    def write_keyed(self, topic: str, *records: Record) -> None:
        """Add messages to partition 0."""
        self.logs[topic, 0] += records

    def partitions(self, policy: object) -> Mapping[str, int]:
        """How many each topic has."""
        return {topic: 1 + max(at for name, at in self.logs if name == topic) for topic, _ in self.logs}

    def recreate(self, topic: str, *values: bytes, partitions: int = 1) -> None:
        """Delete a topic and create it again, with messages in partition 0."""
        for name in [name for name in self.logs if name[0] == topic]:
            del self.logs[name]
        self.logs.update({(topic, number): [] for number in range(partitions)})
        self.ids[topic] += "x"
        self.write(topic, *values)

    def admin(self) -> None:
        """Nobody needs a client to ask for ids."""

    def topic_ids(self, admin: None, topics: Sequence[str]) -> Mapping[str, str]:
        """What identifies the logs of topics."""
        return {topic: self.ids[topic] for topic in topics}

    def retrying(self, policy: object, what: str, call: Callable[[], Any], polled: object = None) -> Any:
        """Nothing fails here."""
        return call()

    def consumer(self, **settings: object) -> LogConsumer:
        """One more client to ask for offsets with."""
        return LogConsumer(self.logs)

    def fetcher(self, **settings: object) -> LogFetcher:
        """One more reader."""
        return LogFetcher(self.logs, self.failing)


class LogConsumer:
    """What the source asks of a consumer."""

    def __init__(self, logs: Mapping[tuple[str, int], Sequence[Record]]) -> None:
        self._logs = logs

    def get_watermark_offsets(self, part: TopicPartition, timeout: float = 0) -> tuple[int, int]:
        return 0, len(self._logs[part.topic, part.partition])

    def close(self) -> None:
        """There is no connection."""


class LogFetcher:
    """What the source reads with."""

    def __init__(self, logs: Mapping[tuple[str, int], Sequence[Record]], failing: list[int]) -> None:
        self._logs, self._at, self._failing = logs, dict[tuple[str, int], int](), failing

    def assign(self, places: Sequence[tuple[str, int, int]]) -> None:
        self._at = {(topic, partition): offset for topic, partition, offset in places}

    def fetch(self, most: int, wait_s: float) -> Fetched:
        found = Fetched()
        if self._failing:
            error = KafkaError(self._failing.pop(0))
            found.failures += [Failure(topic, partition, at, error) for (topic, partition), at in self._at.items()]
            return found
        for (topic, partition), at in self._at.items():
            if at > len(self._logs.get((topic, partition), ())):
                gone = Failure(topic, partition, at, KafkaError(KafkaError._AUTO_OFFSET_RESET))
                found.failures.append(gone)
                continue
            taken = self._logs[topic, partition][at : at + most - found.count]
            if taken:
                keys, values = zip(*taken, strict=True)
                found.messages.append(Messages.of(topic, partition, keys, values, at))
            self._at[topic, partition] += len(taken)
        return found

    def marks(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, len(self._logs[topic, partition])

    def release_memory(self) -> None:
        """There is nothing to give back."""

    def close(self) -> None:
        """There is no connection."""


class Follower:
    """A source over a log, and what its batches did: schema changes, then rows as (kind, row)."""

    def __init__(self, log: TopicLog, folder: Path, at: Offset | None = None, **more: Any) -> None:
        given = {"type": "kafka", "topics": ",".join(log.partitions(None)), "properties.bootstrap.servers": "h:1"}
        options = KafkaSourceOptions.model_validate({**given, **more})
        self.source = KafkaSource(options, Context("pipeline-1", LocalStore(folder)))
        vars(self.source)["_cluster"] = log
        self.counts: dict[str, int] = {}
        self.at: Offset = self.source.initial_offset() if at is None else at

    @property
    def notices(self) -> Sequence[str]:
        """What the source has told."""
        lag = self.source.lag()
        return () if lag is None else lag.notices

    def follow(self, batches: int = 100) -> list[list[SchemaChange | tuple[str, dict[str, Any]]]]:
        """The next batches, as many as there are and at most `batches`."""
        found: list[list[SchemaChange | tuple[str, dict[str, Any]]]] = []
        while len(found) < batches:
            end = self.source.latest_offset(self.at, Limits(1000, 1 << 20), 0.01)
            if end == self.at:
                break
            found.append([*on.changes(self.source.events(self.at, end)), *self._rows(self.at, end)])
            self.at = end
        return found

    def _rows(self, start: Offset, end: Offset) -> list[tuple[str, dict[str, Any]]]:
        rows: list[tuple[int, str, dict[str, Any]]] = []
        for split in self.source.splits(start, end, 2):
            for block in self.source.read(split, self._count, lambda report: None):
                kinds = [RowKind(kind).symbol for kind in block.kinds.to_pylist()]
                rows += zip(block.sequence.to_pylist(), kinds, _plain(block.rows), strict=True)
        return [(kind, row) for _, kind, row in sorted(rows, key=lambda item: item[0])]

    def _count(self, reason: str, number: int) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + number


def _plain(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows; where Python has no such date, after the year 9999, dates and moments are numbers."""
    try:
        return list(rows.to_pylist())
    except OverflowError:
        columns = [column.view(f"int{column.type.bit_width}") if pa.types.is_temporal(column.type) else column
                   for column in rows.columns]  # fmt: skip
        return list(pa.RecordBatch.from_arrays(columns, rows.schema.names).to_pylist())
