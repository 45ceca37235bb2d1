"""Write a task's messages in log order, together with its fence in one transaction. Runs in executors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cdc.block import ChangeBlock
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Context
from connectors.kafka.client import SINK
from connectors.kafka.delivery.clients import Clients
from connectors.kafka.delivery.fences import CommittedFences, WrittenBatch, is_written, part_of
from connectors.kafka.delivery.task import (
    BEYOND_A_DAY,
    WRAPPED,
    Losses,
    Outgoing,
    TaskCounts,
    count_beyond_a_day,
    count_wrapped,
)
from connectors.kafka.delivery.too_large import OversizedRecords
from connectors.kafka.delivery.topics import Topics, now_ms
from connectors.kafka.delivery.turn import FailedTasks, Turn
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.formats import layout_of
from connectors.kafka.sink_options import KafkaSinkOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the tasks of one pipeline.

    Args:
        retry: for how long the cluster may be away.
        fence_notes: the notes about whether there were fences.
        version: the version of this tool, for Debezium's messages.
    """

    options: KafkaSinkOptions
    context: Context
    retry: RetryPolicy
    fence_notes: CommittedFences
    version: str

    @property
    def failed(self) -> FailedTasks:
        """The notes of failed tasks, for which others need not wait."""
        return FailedTasks(self.context.store)

    def write(self, task: TaskAttempt, blocks: Iterator[ChangeBlock], clients: Clients) -> Sequence[Prepared]:
        """Write the rows and the fence; if the fence is there already, only count. Raises SinkError."""
        fences, topics, counts = clients.fences, clients.topics, TaskCounts(task.partition, self._losses())
        part, batch = part_of(task.partition), WrittenBatch(task.batch, task.rows)
        with clients.writer(str(task.partition)) as writer:
            found = fences.last_written([part])[0]
            if self.options.transactional():
                self.fence_notes.check(task, found, clients.where)
            if is_written(batch, found, clients.where):
                log.info("task %d of batch %d is written already", task.partition, task.batch)
                for block in blocks:
                    counts.add(block)
                task.restore_reports(found.reports)
                return counts.prepared()
            if not self.options.transactional():
                task.note_visible()
            turn = Turn(fences, self.failed, task.batch, task.partition, timeout_s=self._turn_s)
            to_zero = self.options.partition_strategy == "all-to-zero"
            with self._too_large(task) as too_large:
                outgoing = Outgoing(writer, topics, self.options.topic_names(), turn, too_large, to_zero=to_zero)
                self._encode(blocks, outgoing, counts)
            writer.commit(fences, part, replace(batch, before=found.batch, reports=task.save_reports()))
        done = counts.prepared(too_large.counts)
        return [replace(handle, counts={**handle.counts, **self._recreations(handle.table, topics)}) for handle in done]

    def _recreations(self, table: TableId, topics: Topics) -> dict[str, int]:
        """Counted notices of topics that had to be created again, so that they lack earlier rows.

        `apply` creates the topic of a new table, so one that is missing now was deleted.
        """
        topic = self.options.topic_names().topic(table)
        notice = f"topic {topic} was gone and is made again, without what it had"
        return {notice: 1} if topic in topics.missing else {}

    def _losses(self) -> Losses:
        found: dict[str, Callable[[ChangeBlock], int]] = {}
        if self.options.wraps_unsigned:
            found[WRAPPED] = count_wrapped
        if self.options.cuts_times:
            found[BEYOND_A_DAY] = count_beyond_a_day
        return found

    def _encode(self, blocks: Iterator[ChangeBlock], outgoing: Outgoing, counts: TaskCounts) -> None:
        encoders: dict[tuple[TableId, TableSchema, tuple[str, ...]], Encoder] = {}
        for block in blocks:
            counts.add(block)
            # Schemas that compare equal may differ in the source's own types, such as the labels of an ENUM.
            key = (block.table, block.schema, tuple(column.source_type for column in block.schema.columns))
            if key not in encoders:
                encoders[key] = self._encoder(block)
            for messages in encoders[key].encode(block):
                outgoing.add(messages)
        outgoing.finish()

    def _too_large(self, task: TaskAttempt) -> OversizedRecords:
        name = f"{self.context.pipeline}-{task.batch}-{task.partition}"
        return OversizedRecords(self.options.largest_message, self.options.dead_letters, name, task.attempt)

    def _encoder(self, block: ChangeBlock) -> Encoder:
        registry, topic = self.options.registry(self.retry, SINK), self.options.topic_names().topic(block.table)
        register = None if registry is None else partial(registry.register, topic)
        layout = layout_of(block.table, block.schema, self.options, self.version, register)
        headers = self.options.headers(block.table)
        return Encoder(layout, tombstones=self.options.tombstones, now_ms=now_ms, headers=headers)

    @property
    def _turn_s(self) -> float:
        """For how long to wait for the turn: the task before may itself wait for the cluster, and then write."""
        return 2 * self.retry.timeout_s + 600.0
