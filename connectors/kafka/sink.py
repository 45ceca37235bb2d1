"""The Kafka sink: each task writes its messages in log order, in one transaction that also moves its fence.

A broker's transaction cannot be handed from an executor to the driver, so each task commits its own. The fence, an
offset that is committed with the records, makes that exactly once: a batch that runs again after a crash has the same
splits (they are kept in the state directory), and a task whose fence is at the batch has already written.
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
    """Publishes to topics. Picklable; tasks open connections, and keep them for the next task (`delivery.clients`)."""

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
        """Check the cluster, the Schema Registry and the login, without waiting, and that fences can be stored. Driver,
        once per run."""
        self.reach()
        with closing(self._clients()) as clients:
            clients.fences.reach()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Create the topics of new tables; existing topics are not changed. Driver."""
        topics = Topics(self._cluster, self._new, self._retry)
        for change in changes:
            table = change.new_table if isinstance(change, RenameTable) else change.table
            if isinstance(change, CreateTable | RenameTable):
                self._check_own_topic(table)
                topics.partitions(self._names.topic(table))

    def _check_own_topic(self, table: TableId) -> None:
        """Raise SinkError for a topic that several tables may share, if messages do not tell their table."""
        silent = self._options.value_format == "json" and not self._options.table_headers
        if silent and self._names.is_shared(table):
            topic = self._names.topic(table)
            reason = f"its topic would be {topic}, as that of other tables, and json does not say whose a row is"
            raise SinkError(reason, where=str(table), hint="name a topic for it in sink.tableId-to-topic.mapping")

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        """Publish schema changes, if the options say so, in a transaction of the driver. Driver."""
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
        """Write the rows and the fence in one transaction; if the fence is there already, only count. Executor."""
        made_of = (self._options, self._context)
        clients: Clients | None = None
        try:
            clients = POOL.acquire(made_of) or self._clients()
            done = self._tasks.write(task, blocks, clients)
            clients.prepare_next(str(task.partition))
        except BaseException as error:
            if clients is not None:
                clients.close()
            # Spark retries none of these, so the tasks after this one would wait for it in vain.
            if isinstance(error, CdcError) and (not error.retryable or error.waited_s or self._retry.stopping()):
                self._tasks.failed.note(task.batch, task.partition, error)
            raise
        POOL.release(made_of, clients)
        return done

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Mapping[str, int]:
        """Check that the committed transactions of tasks and announcements still are, and note the fences. Driver."""
        announced = self._fence_notes.announced(batch)
        counts: dict[str, int] = {}
        if self._delivery.transactional and (prepared or announced):
            counts = self._check_fences(batch, prepared, announced)
        if prepared:
            self._fence_notes.note(batch)
        return counts

    def _check_fences(self, batch: int, prepared: Sequence[Prepared], announced: Sequence[str]) -> dict[str, int]:
        """Raise LoadsLost when rows of a decided batch were aborted, and SinkUnavailable while that is undecided.

        Aborted messages about schema changes cannot be written again in order; they are counted.
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
            # If there are only schema changes, the first task's fence tells whether fences have expired.
            parts = sorted(written | {DRIVER, part_of(0)} if announced else written)
            lost = self._fence_notes.aborted_parts(batch, parts, clients.fences.last_written(parts))
        except BaseException:
            clients.close()
            raise
        POOL.release(made_of, clients)
        return lost & (written | {DRIVER})

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Forget which tasks had failed. Their open transactions are ended when they run again. Driver."""
        self._tasks.failed.clear()

    def reach(self) -> None:
        """Check that the cluster and the Schema Registry answer, without waiting. Executor."""
        single_try = replace(self._retry, timeout_s=0.0)
        self._cluster.partitions(single_try)
        registry = self._options.registry(single_try, SINK)
        if registry is not None:
            registry.reach()

    def warm(self) -> None:
        """Load the kernels. Executor."""
        from connectors.kafka.warm import warm

        warm()

    def _clients(self, *, patient: bool = True) -> Clients:
        topic, retry = self._options.fence_topic, self._retry if patient else replace(self._retry, timeout_s=0.0)
        return Clients(self._cluster, self._delivery, retry, self._new, fence_topic=topic, name=self._id)
