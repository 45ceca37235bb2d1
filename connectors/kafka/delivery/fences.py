"""Fences: the batch that each part of a pipeline wrote last, as offsets that are committed with the records.

The offsets belong to a consumer group named after the pipeline. Offset N + 1 of partition p + 1 of the fence topic
means that task p has written batch N; partition 0 is the driver's, for schema changes. The topic never gets records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cdc.errors import SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.store import Store
from connectors.kafka.client import ANSWER_S, KafkaCluster
from connectors.kafka.delivery.topics import Topics

DRIVER = 0
"""The partition of the fence topic for schema changes."""

PARTITIONS = 32
"""The partitions of a new fence topic; it gets more when a batch has more tasks."""

_FENCES = "fences.json"

_ANNOUNCED = "announced.json"

_OPEN = "asking which batches are written: a transaction with such a note is neither committed nor aborted"
_OPEN_HINT = (
    "it ends on its own, after properties.transaction.timeout.ms at the latest; one that does not was lost by a broker "
    "that crashed, and readers wait for it too: see kafka-transactions.sh find-hanging; once it is aborted, the run "
    "says whether rows went with it"
)

NEVER = -1
"""The batch of a part that has never written anything."""


def part_of(task: int) -> int:
    """The partition of the fence topic for a task."""
    return task + 1


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The last batch that a part wrote (NEVER for none).

    Also has the batch's `TaskAttempt.rows`, the batch written before it, and the id of the attempt's reports
    (`TaskAttempt.save_reports`). These are kept as the metadata of the offset; empty or None when not known.
    """

    batch: int
    rows: str = ""
    before: int | None = None
    reports: str = ""

    @classmethod
    def of(cls, offset: TopicPartition) -> WrittenBatch:
        """Read the fence from a committed offset."""
        rows, before, reports = [*(offset.metadata or "").split("|"), "", ""][:3]
        batch = NEVER if offset.offset < 0 else offset.offset - 1
        return cls(batch, rows, int(before) if before else None, reports)

    @property
    def metadata(self) -> str:
        """The metadata to commit with the offset."""
        before = "" if self.before is None else str(self.before)
        return f"{self.rows}|{before}|{self.reports}".rstrip("|")

    def lacks(self, batch: int) -> bool:
        """Whether the part lacks a batch that was reported as written, so that its transaction was aborted."""
        return self.batch < batch or (self.batch > batch and self.before is not None and self.before < batch)


class Fences:
    """Reads fences, and prepares the offsets to commit. Opens a connection of its own; must be closed."""

    def __init__(self, cluster: KafkaCluster, topics: Topics, retry: RetryPolicy, *, topic: str, group: str) -> None:
        self._cluster, self._topics, self._retry, self.topic = cluster, topics, retry, topic
        self._group = group
        self._consumer: Consumer = cluster.consumer(group_id=group, enable_auto_commit=False)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def reach(self) -> None:
        """Read the driver's fence, without waiting for a transaction left open, which its next writer ends.

        Raises the sink's errors.
        """
        self._topics.ensure(self.topic, PARTITIONS, grow=False)
        partitions = [TopicPartition(self.topic, DRIVER)]
        self._cluster.retrying(self._retry, "asking for the fences", lambda: self._committed_or_open(partitions))

    def batches(self, parts: Sequence[int]) -> list[int]:
        """The number of the last batch that each part wrote, NEVER for none; otherwise as `last_written`."""
        return [written.batch for written in self.last_written(parts)]

    def last_written(self, parts: Sequence[int]) -> list[WrittenBatch]:
        """The last batch that each part wrote, and which rows of the log it had.

        A transaction that is being committed just now may not be visible yet; what this producer's predecessor left is
        decided once `init_transactions` returns. Raises the sink's errors.
        """
        self._topics.ensure(self.topic, max(PARTITIONS, max(parts) + 1), grow=True)
        partitions = [TopicPartition(self.topic, part) for part in parts]
        doing = "asking which batches are written"
        found = self._cluster.retrying(self._retry, doing, lambda: self._committed(partitions))
        return [WrittenBatch.of(partition) for partition in found]

    def _committed(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        try:
            found: list[TopicPartition] = self._consumer.committed(list(partitions), timeout=ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT and self._answers_at_once(partitions):
                raise SinkUnavailable(_OPEN, where=self._cluster.where, hint=_OPEN_HINT) from error
            raise
        _check_each(found)
        return found

    def _answers_at_once(self, partitions: Sequence[TopicPartition]) -> bool:
        """Whether the fences can be read when open transactions are ignored."""
        try:
            self._committed_or_open(partitions)
        except KafkaException:
            return False
        return True

    def _committed_or_open(self, partitions: Sequence[TopicPartition]) -> None:
        """Read the fences without waiting for open transactions. Raises KafkaException."""
        group = {"group_id": self._group, "enable_auto_commit": False, "isolation_level": "read_uncommitted"}
        consumer = self._cluster.consumer(**group)
        try:
            _check_each(consumer.committed(list(partitions), timeout=ANSWER_S))
        finally:
            consumer.close()

    def mark(self, part: int, written: WrittenBatch) -> tuple[list[TopicPartition], Any]:
        """The offsets to commit with the transaction that writes a batch, and the group they belong to."""
        offset = TopicPartition(self.topic, part, written.batch + 1, metadata=written.metadata)
        return [offset], self._consumer.consumer_group_metadata()

    def put(self, part: int, written: WrittenBatch) -> None:
        """Commit the fence without a transaction. Raises the sink's errors."""
        offsets, _ = self.mark(part, written)

        def commit() -> None:
            self._consumer.commit(offsets=offsets, asynchronous=False)

        self._cluster.retrying(self._retry, "noting a written batch", commit)


def _check_each(found: Sequence[TopicPartition]) -> None:
    for partition in found:
        if partition.error is not None:
            raise KafkaException(partition.error)


class CommittedFences:
    """Notes that a pipeline has fences, so that lost fences are not taken for batches never written. Any process."""

    def __init__(self, store: Store) -> None:
        self._store, self._noted = store, False
        self._announced: Mapping[str, Any] | None = None

    def announcing(self, batch: int, tables: Iterable[TableId]) -> None:
        """Note that schema changes of a batch are about to be announced, which its commit then checks. Driver."""
        self._announced = {"batch": batch, "tables": [str(table) for table in tables]}
        self._store.write_json(_ANNOUNCED, self._announced)

    def announced(self, batch: int) -> Sequence[str]:
        """The tables of a batch's schema change messages, one per message; includes those of an earlier run."""
        if self._announced is None:
            self._announced = self._store.read_json(_ANNOUNCED) or {"batch": NEVER}
        tables: Sequence[str] = self._announced["tables"] if self._announced["batch"] == batch else ()
        return tables

    def note(self, batch: int) -> None:
        """Note that the tasks of a batch have written their fences. Driver."""
        if not self._noted and self._store.read_json(_FENCES) is None:
            self._store.write_json(_FENCES, {"since": batch})
        self._noted = True

    def aborted_parts(self, batch: int, parts: Sequence[int], found: Sequence[WrittenBatch]) -> set[int]:
        """The parts of a decided batch whose transactions were aborted after they had been committed.

        A transaction is committed once its coordinator has recorded that. A broker that crashes may lose the commit
        before it reaches the fence, and an administrator may then abort it there. If all fences are gone, they have
        expired, and nothing is known.
        """
        if all(each.batch == NEVER for each in found) and self._store.read_json(_FENCES) is not None:
            return set()
        return {part for part, each in zip(parts, found, strict=True) if each.lacks(batch)}

    def check(self, task: TaskAttempt, found: WrittenBatch, where: str) -> None:
        """Raise SinkError when it cannot be told whether an earlier run has written the task's batch.

        Only the first task is checked: every batch has one, and the others write only after it.
        """
        if not task.again or task.partition != 0 or found.batch != NEVER:
            return
        noted = self._store.read_json(_FENCES)
        if noted is not None and noted["since"] < task.batch:
            raise SinkError(
                f"an earlier run has begun with batch {task.batch}, and the fences with its progress are missing: "
                "the fence topic or the group was deleted, or offsets.retention.minutes is over",
                where=where,
                hint="see in the topics whether its rows are there; to write the whole batch (again), remove "
                f"{self._store.where(_FENCES)}, or start over with another --state-dir and empty topics",
            )


def is_written(batch: WrittenBatch, found: WrittenBatch, where: str) -> bool:
    """Whether the batch is written already. Raises SinkError when another run has written in between.

    A crashed run and the one that continues have the same parts, so a batch with other rows is that of a second run.
    """
    if found.batch > batch.batch:
        raise SinkError(
            f"batch {found.batch} of this pipeline was written already, and the state directory is at batch "
            f"{batch.batch}: it is an older copy, or another run is active next to this one",
            where=where,
            hint="stop the other run and restore the newest state directory, or start over with another --state-dir "
            "and empty topics",
        )
    if found.batch == batch.batch and found.rows and batch.rows and found.rows != batch.rows:
        raise SinkError(
            f"batch {found.batch} of this pipeline was written with other rows: another run is active next to this one",
            where=where,
            hint="two runs of one pipeline write at the same time: stop one of them",
        )
    return found.batch == batch.batch
