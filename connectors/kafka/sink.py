"""The Kafka sink: each task writes its messages in one transaction, with a fence that says so, and in log order.

A broker's transaction cannot be handed from an executor to the driver, so a task commits its own. What makes that
exactly once is the fence, an offset that commits with the records: a batch that runs again after a crash has the same
splits (they are kept in the state directory), and a task whose fence is at the batch has written already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import CdcError, LoadsLost
from cdc.retry import RetryPolicy
from cdc.schema import CreateTable, RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Announced, Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.source import Context
from connectors.kafka.client import SINK, KafkaCluster
from connectors.kafka.delivery.announcing import Announcing
from connectors.kafka.delivery.clients import POOL, Clients
from connectors.kafka.delivery.fences import DRIVER, CommittedFences, WrittenBatch, is_written, part_of
from connectors.kafka.delivery.task import (
    BEYOND_A_DAY,
    WRAPPED,
    Losses,
    Outgoing,
    Tally,
    count_beyond_a_day,
    count_wrapped,
)
from connectors.kafka.delivery.too_large import OversizedRecords
from connectors.kafka.delivery.topics import NewTopics, Topics, now_ms
from connectors.kafka.delivery.transaction import Producing
from connectors.kafka.delivery.turn import FailedTasks, Turn
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.formats import layout_of, naming_of
from connectors.kafka.encoding.schema_messages import schema_messages
from connectors.kafka.sink_options import KafkaSinkOptions
from connectors.kafka.topic_names import TopicNames

log = logging.getLogger(__name__)

_PACKAGE = "cdc-pipelines"

_MESSAGE_ABORTED = (
    "a message about a schema change was aborted by an administrator, after a broker that crashed had lost its end; "
    "readers lack it"
)


class KafkaSink(Sink):
    """Publishes to topics. Picklable; connections are opened by tasks, and kept for the next (`delivery.clients`)."""

    delivery: ClassVar[Delivery] = Delivery.COMMIT_IN_TASK
    keyless: ClassVar[KeylessRows] = KeylessRows.CHANGES

    def __init__(self, options: KafkaSinkOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._cluster = KafkaCluster(options.settings(), SINK)
        self._retry = context.retry_policy(options.retry_timeout_s)
        self._names = TopicNames(options.topic, options.topic_mapping(), options.topic_prefix or "")
        self._new = NewTopics(
            options.create_topics, options.create_partitions, options.create_replication, options.topic_config()
        )
        self._delivery = Producing(options.transactional(), options.largest_message)
        self._fence_notes = CommittedFences(context.store)
        self._id = f"{options.transactional_id_prefix}-{context.pipeline}"

    def check(self) -> None:
        """Reach the cluster and the Schema Registry, log in, and see that fences can be kept. Driver, once a run."""
        with closing(self._clients()) as clients:
            clients.fences.reach()
        if (registry := self._options.registry(self._retry, SINK)) is not None:
            registry.reach()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Make the topics of new tables; nothing is changed in those that are there. Driver."""
        topics = Topics(self._cluster, self._new, self._retry)
        for change in changes:
            table = change.new_table if isinstance(change, RenameTable) else change.table
            if isinstance(change, CreateTable | RenameTable):
                topics.partitions(self._names.topic(table))

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        """Publish schema changes, where that is asked for, in a transaction of the driver's. Driver."""
        found = list(schema_messages(changes, self._options, naming_of(self._options, self._version), now_ms()))
        if not found:
            return
        if self._delivery.transactional:
            self._fence_notes.announcing(batch, [message.table for message in found])
        with closing(self._clients()) as clients, clients.writer("schema") as writer:
            announcing = Announcing(clients.topics, self._names, self._options)
            announcing.write(writer, clients.fences, batch, found, clients.where)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows and the fence in one transaction; only count them when the fence is there. Executor."""
        failed, made_of = FailedTasks(self._context.store), (self._options, self._context)
        clients = POOL.acquire(made_of) or self._clients()
        try:
            done = self._prepare(task, blocks, clients, failed)
            clients.look_ahead(str(task.partition))
        except BaseException as error:
            clients.close()
            if isinstance(error, CdcError) and not error.retryable:
                failed.note(task.batch, task.partition)
            raise
        POOL.release(made_of, clients)
        return done

    def _losses(self) -> Losses:
        found: dict[str, Callable[[ChangeBlock], int]] = {}
        if self._options.wraps_unsigned:
            found[WRAPPED] = count_wrapped
        if self._options.cuts_times:
            found[BEYOND_A_DAY] = count_beyond_a_day
        return found

    def _prepare(
        self, task: TaskAttempt, blocks: Iterator[ChangeBlock], clients: Clients, failed: FailedTasks
    ) -> Sequence[Prepared]:
        fences, topics, tally = (
            clients.fences,
            clients.topics,
            Tally(task.partition, self._losses()),
        )
        part, wanted = part_of(task.partition), WrittenBatch(task.batch, task.rows)
        with clients.writer(str(task.partition)) as writer:
            found = fences.last_written([part])[0]
            if self._delivery.transactional:
                self._fence_notes.check(task, found, clients.where)
            if is_written(wanted, found, clients.where):
                log.info("task %d of batch %d is written already", task.partition, task.batch)
                for block in blocks:
                    tally.add(block)
                task.restore_reports(found.reports)
                return tally.prepared()
            if not self._delivery.transactional:
                task.note_visible()
            turn = Turn(fences, failed, task.batch, task.partition, timeout_s=self._turn_s)
            to_zero = self._options.partition_strategy == "all-to-zero"
            with self._too_large(task) as too_large:
                outgoing = Outgoing(writer, topics, self._names, turn, too_large, to_zero=to_zero)
                self._write(blocks, outgoing, tally)
            writer.commit(fences, part, replace(wanted, before=found.batch, reports=task.save_reports()))
        done = tally.prepared(too_large.counts)
        return [replace(handle, counts={**handle.counts, **self._recreations(handle.table, topics)}) for handle in done]

    def _recreations(self, table: TableId, topics: Topics) -> dict[str, int]:
        """A topic is made when its table is created (`apply`): who has only later rows of it has to know."""
        topic = self._names.topic(table)
        notice = f"topic {topic} was gone and is made again, without what it had"
        return {notice: 1} if topic in topics.missing else {}

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Mapping[str, int]:
        """Everything is committed that tasks wrote and was announced: see that it stayed so, and note that there are
        fences. Driver."""
        announced = self._fence_notes.announced(batch)
        counts: dict[str, int] = {}
        if self._delivery.transactional and (prepared or announced):
            counts = self._check_fences(batch, prepared, announced)
        if prepared:
            self._fence_notes.note(batch)
        return counts

    def _check_fences(self, batch: int, prepared: Sequence[Prepared], announced: Sequence[str]) -> dict[str, int]:
        """Raise LoadsLost when rows of a decided batch were taken back, and SinkUnavailable while that is open.

        Messages about schema changes that were taken back cannot be had again in their order: they are counted.
        """
        lost = self._aborted_parts(batch, {part_of(handle.partition) for handle in prepared}, announced=bool(announced))
        if rows := lost - {DRIVER}:
            tables = sorted({str(handle.table) for handle in prepared if part_of(handle.partition) in rows})
            raise LoadsLost(
                f"batch {batch} is decided, and the transaction that wrote its rows of {', '.join(tables)} was aborted "
                "since: an administrator has aborted what a crashed broker had left open",
                where=self._cluster.where,
                hint="readers of these topics may lack the rows, deletes among them",
                uncertain=tables,
            )
        return {f"{table}: {_MESSAGE_ABORTED}": announced.count(table) for table in announced} if DRIVER in lost else {}

    def _aborted_parts(self, batch: int, written: set[int], *, announced: bool) -> set[int]:
        made_of = (self._options, self._context, "commit")
        clients = POOL.acquire(made_of) or self._clients(replace(self._retry, timeout_s=0.0))
        try:
            # The first task's says whether fences were forgotten, where there are schema changes alone.
            parts = sorted(written | {DRIVER, part_of(0)} if announced else written)
            lost = self._fence_notes.aborted_parts(batch, parts, clients.fences.last_written(parts))
        except BaseException:
            clients.close()
            raise
        POOL.release(made_of, clients)
        return lost & (written | {DRIVER})

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Forget which tasks had stopped. What they left open is taken over when they run again. Driver."""
        FailedTasks(self._context.store).clear()

    def reach(self) -> None:
        """Ask the cluster which topics there are, and the Schema Registry for something. Executor."""
        once = replace(self._retry, timeout_s=0.0)
        self._cluster.partitions(once)
        registry = self._options.registry(once, SINK)
        if registry is not None:
            registry.reach()

    def warm(self) -> None:
        """Load the kernels. Executor."""
        from connectors.kafka.warm import warm

        warm()

    def _write(self, blocks: Iterator[ChangeBlock], outgoing: Outgoing, tally: Tally) -> None:
        encoders: dict[tuple[TableId, TableSchema, tuple[str, ...]], Encoder] = {}
        for block in blocks:
            tally.add(block)
            # Equal schemas may differ in the source's own types, such as the labels of an ENUM.
            key = (block.table, block.schema, tuple(column.source_type for column in block.schema.columns))
            if key not in encoders:
                encoders[key] = self._encoder(block)
            for messages in encoders[key].encode(block):
                outgoing.add(messages)
        outgoing.finish()

    def _too_large(self, task: TaskAttempt) -> OversizedRecords:
        name = f"{self._context.pipeline}-{task.batch}-{task.partition}"
        return OversizedRecords(self._delivery.largest, self._options.dead_letters, name, task.attempt)

    def _encoder(self, block: ChangeBlock) -> Encoder:
        registry, topic = self._options.registry(self._retry, SINK), self._names.topic(block.table)
        register = None if registry is None else partial(registry.register, topic)
        layout = layout_of(block.table, block.schema, self._options, self._version, register)
        headers = self._options.headers(block.table)
        return Encoder(layout, tombstones=self._options.tombstones, now_ms=now_ms, headers=headers)

    def _clients(self, retry: RetryPolicy | None = None) -> Clients:
        topic = self._options.fence_topic
        return Clients(self._cluster, self._delivery, retry or self._retry, self._new, fence_topic=topic, name=self._id)

    @property
    def _turn_s(self) -> float:
        """A task before this one may itself wait for the cluster, and write meanwhile."""
        return 2 * self._retry.timeout_s + 600.0

    @cached_property
    def _version(self) -> str:
        return version(_PACKAGE)
