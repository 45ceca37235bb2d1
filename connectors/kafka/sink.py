"""The Kafka sink: each task writes its messages in one transaction, with a fence that says so, and in log order.

A broker's transaction cannot be handed from an executor to the driver, so a task commits its own. What makes that
exactly once is the fence, an offset that commits with the records: a batch that runs again after a crash has the same
splits (they are kept in the state directory), and a task whose fence is at the batch has written already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.errors import CdcError, LoadsLost, SinkError
from cdc.schema import CreateTable, RenameTable, SchemaChange, TableId
from cdc.sink import Announced, Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.source import Context
from connectors.kafka.client import SINK, KafkaCluster
from connectors.kafka.delivery.announcing import Announcing, messages_about, respelled_keys
from connectors.kafka.delivery.clients import POOL, Clients
from connectors.kafka.delivery.fences import DRIVER, CommittedFences, part_of
from connectors.kafka.delivery.topics import NewTopics, Topics
from connectors.kafka.delivery.transaction import Producing
from connectors.kafka.sink_options import KafkaSinkOptions
from connectors.kafka.task_writer import TaskWriter

_PACKAGE = "cdc-pipelines"

log = logging.getLogger(__name__)

_RESPELLED = (
    "%s: its messages have other keys from here on. Whoever goes by keys keeps rows of earlier messages under the old "
    "ones, also when they are deleted: empty the topic %s, then `cdc resync` %s"
)
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
        self._names = options.topic_names()
        self._new = NewTopics(
            options.create_topics, options.create_partitions, options.create_replication, options.topic_config()
        )
        self._delivery = Producing(options.transactional(), options.largest_message)
        self._fence_notes = CommittedFences(context.store)
        self._version = version(_PACKAGE)
        self._tasks = TaskWriter(options, context, self._retry, self._fence_notes, self._version)
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
                self._check_own_topic(table)
                topics.partitions(self._names.topic(table))

    def _check_own_topic(self, table: TableId) -> None:
        """Raise SinkError for a topic that another table may have too, where messages do not say which they are of."""
        silent = self._options.value_format == "json" and not self._options.table_headers
        if silent and self._names.is_shared(table):
            topic = self._names.topic(table)
            reason = f"its topic would be {topic}, as that of other tables, and json does not say whose a row is"
            raise SinkError(reason, where=str(table), hint="name a topic for it in sink.tableId-to-topic.mapping")

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        """Publish schema changes, where that is asked for, in a transaction of the driver's. Driver."""
        for table in respelled_keys(changes, self._options.value_format):
            log.warning(_RESPELLED, table, self._names.topic(table), table)
        found = messages_about(changes, self._options, self._version)
        if not found:
            return
        if self._delivery.transactional:
            self._fence_notes.announcing(batch, [message.table for message in found])
        with closing(self._clients()) as clients, clients.writer("schema") as writer:
            announcing = Announcing(clients.topics, self._names, self._options)
            announcing.write(writer, clients.fences, batch, found, clients.where)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows and the fence in one transaction; only count them when the fence is there. Executor."""
        made_of = (self._options, self._context)
        clients = POOL.acquire(made_of) or self._clients()
        try:
            done = self._tasks.write(task, blocks, clients)
            clients.look_ahead(str(task.partition))
        except BaseException as error:
            clients.close()
            if isinstance(error, CdcError) and not error.retryable:
                self._tasks.failed.note(task.batch, task.partition)
            raise
        POOL.release(made_of, clients)
        return done

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
        clients = POOL.acquire(made_of) or self._clients(patient=False)
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
        self._tasks.failed.clear()

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

    def _clients(self, *, patient: bool = True) -> Clients:
        topic, retry = self._options.fence_topic, self._retry if patient else replace(self._retry, timeout_s=0.0)
        return Clients(self._cluster, self._delivery, retry, self._new, fence_topic=topic, name=self._id)
