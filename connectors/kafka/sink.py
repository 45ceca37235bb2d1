"""The Kafka sink: each task writes its messages in one transaction, with a fence that says so, and in log order.

A broker's transaction cannot be handed from an executor to the driver, so a task commits its own. What makes that
exactly once is the fence, an offset that commits with the records: a batch that runs again after a crash has the same
splits (they are kept in the state directory), and a task whose fence is at the batch has written already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version

from cdc.block import ChangeBlock
from cdc.errors import CdcError
from cdc.flow.retry import RetryPolicy
from cdc.schema import CreateTable, RenameTable, SchemaChange, TableId, TableSchema
from cdc.sink import Announced, Prepared, Sink, TaskAttempt
from cdc.source import Context
from connectors.kafka.client import SINK, Cluster
from connectors.kafka.delivery.announcing import Announcing
from connectors.kafka.delivery.fences import Fences, Written, is_written, part_of
from connectors.kafka.delivery.task import Outgoing, Tally
from connectors.kafka.delivery.too_large import TooLarge
from connectors.kafka.delivery.topics import NewTopics, TopicNames, Topics, now_ms
from connectors.kafka.delivery.transaction import Delivery, Writer
from connectors.kafka.delivery.turn import FailedTasks, Turn
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.formats import layout_of, naming_of
from connectors.kafka.encoding.schema_messages import schema_messages
from connectors.kafka.sink_options import KafkaSinkOptions

log = logging.getLogger(__name__)

_PACKAGE = "cdc-pipelines"


class KafkaSink(Sink):
    """Publishes to topics. Picklable; connections are opened by each task and closed with it."""

    def __init__(self, options: KafkaSinkOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._cluster = Cluster(options.settings(), SINK)
        self._retry = RetryPolicy(timeout_s=options.retry_timeout_s, stopping=context.stopping, waiting=context.waiting)
        self._names = TopicNames(options.topic, options.topic_mapping(), options.topic_prefix or "")
        self._new = NewTopics(
            options.create_topics, options.create_partitions, options.create_replication, options.topic_config()
        )
        self._delivery = Delivery(options.transactional(), options.largest_message)
        self._id = f"{options.transactional_id_prefix}-{context.pipeline}"

    def check(self) -> None:
        """Reach the cluster, log in, and see that fences can be kept. Driver, once a run."""
        topics = self._topics()
        fences = self._fences(topics)
        try:
            fences.batches([0])
        finally:
            fences.close()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Make the topics of new tables; nothing is changed in those that are there. Driver."""
        topics = self._topics()
        for change in changes:
            table = change.new_table if isinstance(change, RenameTable) else change.table
            if isinstance(change, CreateTable | RenameTable):
                topics.partitions(self._names.topic(table))

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        """Publish schema changes, where that is asked for, in a transaction of the driver's. Driver."""
        found = list(schema_messages(changes, self._options, naming_of(self._options, self._version), now_ms()))
        if not found:
            return
        topics = self._topics()
        fences = self._fences(topics)
        try:
            writer = self._writer("schema")
            try:
                Announcing(topics, self._names, self._options).write(writer, fences, batch, found, self._cluster.where)
            except BaseException:
                writer.abort()
                raise
            finally:
                writer.close()
        finally:
            fences.close()

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows and the fence in one transaction; only count them when the fence is there. Executor."""
        failed = FailedTasks(self._context.store)
        topics = self._topics()
        fences = self._fences(topics)
        tally = Tally(task.partition)
        try:
            writer = self._writer(str(task.partition))
            try:
                part = part_of(task.partition)
                wanted = Written(task.batch, task.rows)
                if is_written(wanted, fences.written([part])[0], self._cluster.where):
                    log.info("task %d of batch %d is written already", task.partition, task.batch)
                    for block in blocks:
                        tally.add(block)
                    return tally.prepared()
                turn = Turn(fences, failed, task.batch, task.partition, timeout_s=self._turn_s)
                to_zero = self._options.partition_strategy == "all-to-zero"
                with self._too_large(task) as too_large:
                    outgoing = Outgoing(writer, topics, self._names, turn, too_large, to_zero=to_zero)
                    self._write(blocks, outgoing, tally)
                writer.commit(fences, part, wanted)
                return tally.prepared(too_large.counts)
            except BaseException:
                writer.abort()
                raise
            finally:
                writer.close()
        except CdcError as error:
            if not error.retryable:
                failed.note(task.batch, task.partition)
            raise
        finally:
            fences.close()

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Nothing: every task has committed what it wrote. Driver."""

    def abort(self, batch: int) -> None:
        """Forget which tasks had stopped. What they left open is taken over when they run again. Driver."""
        FailedTasks(self._context.store).clear()

    def warm(self) -> None:
        """Load the kernels. Executor."""
        from connectors.kafka.warm import warm

        warm()

    def _writer(self, part: str) -> Writer:
        name = f"{self._id}-{part}"
        return Writer(self._cluster, self._delivery, self._retry, name=name, stopping=self._context.stopping)

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

    def _too_large(self, task: TaskAttempt) -> TooLarge:
        name = f"{self._context.pipeline}-{task.batch}-{task.partition}"
        return TooLarge(self._delivery.largest, self._options.dead_letters, name, task.attempt)

    def _encoder(self, block: ChangeBlock) -> Encoder:
        layout = layout_of(block.table, block.schema, self._options, self._version)
        headers = self._options.headers(block.table)
        return Encoder(layout, tombstones=self._options.tombstones, now_ms=now_ms, headers=headers)

    def _topics(self) -> Topics:
        return Topics(self._cluster, self._new, self._retry)

    def _fences(self, topics: Topics) -> Fences:
        return Fences(self._cluster, topics, self._retry, topic=self._options.fence_topic, group=self._id)

    @property
    def _turn_s(self) -> float:
        """A task before this one may itself wait for the cluster, and write meanwhile."""
        return 2 * self._retry.timeout_s + 600.0

    @cached_property
    def _version(self) -> str:
        return version(_PACKAGE)
