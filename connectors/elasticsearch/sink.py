"""The sink `elasticsearch`: executors write bulk bodies to files, the driver sends those of a decided batch in order.

Readers see the documents of a batch as they arrive. Sending a batch again changes nothing: each document has an
external version made of the pipeline's epoch, the batch and its part, so an older row never replaces a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.finding import Finding, error, ok, warning
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.elasticsearch.client import ErrorAnswer
from connectors.elasticsearch.cluster import SearchCluster
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.read_back import Documents
from connectors.elasticsearch.schema_changes import IndexChanges
from connectors.elasticsearch.sending import BatchSending
from connectors.elasticsearch.settings import client_of, names_of
from connectors.elasticsearch.staging import DocumentStaging
from connectors.shared.staging.stage import StagingFolder

log = logging.getLogger(__name__)


class ElasticsearchSink(Sink):
    """Writes documents into one cluster. Picklable; connections are opened when needed."""

    delivery: ClassVar[Delivery] = Delivery.IDEMPOTENT
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS
    shadows: ClassVar[bool] = True

    def __init__(self, options: ElasticsearchSinkOptions, context: Context) -> None:
        self._options, self._folder = options, StagingFolder(context.store)
        retry = context.retry_policy(options.retry_timeout_s)
        self._cluster = SearchCluster(client_of(options, retry), names_of(options), context.pipeline)
        self._changes = IndexChanges(self._cluster, options, context.store)
        self._staging = DocumentStaging(self._cluster, options, self._folder)
        self._sending = BatchSending(self._cluster, options, self._folder)

    def check(self) -> None:
        """Check the cluster's product and version, and warn of indexes that forget deletes early. Raises SinkError."""
        self._cluster.product(wait=False)
        for finding in examine_deletes(self._cluster, self._options, own=True):
            log.warning("%s; %s", finding.message, finding.fix)

    def last_committed_batch(self) -> int:
        """The last batch that the pipeline's own document notes as committed. Driver."""
        return self._cluster.last_batch()

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """The tables without an index. Driver."""
        found = self._cluster.indexes(tables)
        return [table for table in tables if table not in found]

    def describe(self, table: TableId) -> TableSchema | None:
        """The table's schema in the mapping of its index. Driver."""
        found = self._cluster.indexes([table]).get(table)
        return None if found is None else found.schema

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table's index has documents. Driver."""
        return bool(self._cluster.indexes([table])) and self._cluster.has_documents(table)

    def plan_text(self, changes: Sequence[SchemaChange]) -> list[str]:
        """The requests that `apply` would send now. Driver."""
        return self._changes.plan_text(changes)

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each planned from the indexes that exist. Driver."""
        self._changes.apply(batch, changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the bodies of the task's documents into one synced file. Executor."""
        return self._staging.stage(task, blocks)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Send all bodies, table by table in the order of the log. Driver; sending again changes nothing.

        Raises SinkError for a document that the cluster refuses, unless those become dead letters, and SinkUnavailable
        when the cluster stays away.
        """
        return self._sending.commit(batch, prepared)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the bodies of a batch that was never decided. Driver."""
        self._folder.drop(batch)

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The documents of a table, for `cdc verify`. Any process."""
        found = self._cluster.indexes([table]).get(table)
        if found is None:
            return None
        if not schema.primary_key:
            return "a table without a key: its documents only grow"
        return Documents(self._cluster.client, self._cluster.names.alias(table), schema, found)

    def examine(self) -> Iterator[Finding]:
        """Report the cluster's product, version and health."""
        return examine(self._cluster, self._options)


def examine(cluster: SearchCluster, options: ElasticsearchSinkOptions) -> Iterator[Finding]:
    """Report the version, the health, and the indexes of any pipeline that forget deletes early."""
    product, number = cluster.product(wait=False)
    yield ok("version", f"{product} {number}")
    try:
        health = cluster.client.request("GET", "/_cluster/health", wait=False)
    except ErrorAnswer as refused:
        yield error("health", str(refused), "grant the user the cluster privilege `monitor`")
        return
    status = str(health["status"])
    if status == "red":
        yield warning(
            "health", "the cluster is red: some shards accept no documents", "see _cluster/allocation/explain"
        )
    else:
        yield ok("health", f"the cluster is {status}, {health['number_of_nodes']} nodes")
    yield from examine_deletes(cluster, options, own=False)


def examine_deletes(cluster: SearchCluster, options: ElasticsearchSinkOptions, *, own: bool) -> Iterator[Finding]:
    """Report indexes that may forget a delete while a request is under way; with `own`, only this pipeline's."""
    least = options.request_timeout_s
    for index, gc_deletes in sorted(cluster.delete_retention_s(own=own).items()):
        if gc_deletes <= least:
            text = f"{index} forgets deletes after {gc_deletes:g} s, a request may take {least:g} s: a late one "
            hint = f'PUT /{index}/_settings {{"index.gc_deletes": "{options.gc_deletes}"}}'
            yield warning("gc_deletes", f"{text}brings a deleted document back", hint)
