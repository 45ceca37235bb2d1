"""Send a decided batch to the cluster, table by table in the order of the log, and note its commit. Driver."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from cdc.dead_letters import DeadLetters, folder_of
from cdc.errors import SinkError
from cdc.process.faults import crash_point
from cdc.sink import Prepared, lacks_batches
from connectors.elasticsearch.bodies import BulkBodies, read_flushes, tables_in_order
from connectors.elasticsearch.bulk import Sender, epoch_of
from connectors.elasticsearch.cluster import COMMITS, SearchCluster, foreign_index_error
from connectors.elasticsearch.dead_letters import BatchDeadLetters
from connectors.elasticsearch.lookup import deletes_of
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.shared.staging.stage import StagingFolder


class BatchSending:
    """Sends the batches of one pipeline, one after the other. Picklable."""

    def __init__(self, cluster: SearchCluster, options: ElasticsearchSinkOptions, staging: StagingFolder) -> None:
        self._cluster, self._options, self._staging = cluster, options, staging
        self._dead_letters = options.rejected_values == "dead-letter"
        self._begun: int | None = None
        self._newest = -1
        """Newest batch that the cluster has told this object to have."""

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Send a batch unless it is committed already, remove its files, and return counts of the rows left out.

        Raises SinkError for a document that the cluster refuses, unless those become dead letters, and if the cluster
        lacks batches that it had; SinkUnavailable when the cluster stays away.
        """
        last = self._cluster.last_batch()
        if last < self._newest:
            raise lacks_batches(last, self._newest, f"{COMMITS}/_doc/{self._cluster.pipeline}")
        counts = self._send_batch(batch, prepared, first=last < 0) if batch > last else self._cluster.counts_of(batch)
        self._newest = max(last, batch)
        self._staging.clean(batch)
        return counts

    def _send_batch(self, batch: int, prepared: Sequence[Prepared], *, first: bool) -> dict[str, int]:
        """Send a batch, note its commit, and return counts of the rows left out."""
        if first:
            self._cluster.create_commits_index()
        self._check_indexes(prepared)
        for table in dict.fromkeys(handle.table for handle in prepared):
            shards = [handle.handle.get("shards", ()) for handle in prepared if handle.table == table]
            if any(shards):
                self._cluster.create_shards(table, chain.from_iterable(shards), self._options.settings())
        again, self._begun = self._begun is None or batch <= self._begun, batch
        dead_letters = self._batch_dead_letters(batch)
        sender = Sender(
            self._cluster.client,
            self._options.connections,
            lambda: self._check_owner(batch, prepared),
            self._dead_letters,
        )
        with dead_letters.of([handle.table for handle in prepared] if self._dead_letters else [], again=again):
            for handles in tables_in_order(prepared):
                highest = max((handle.handle["version"] for handle in handles), default=0)
                for handle in handles:
                    self._send(batch, handle, sender, highest, dead_letters)
        if self._options.refresh == "true":
            self._cluster.refresh([handle.table for handle in prepared])
        self._cluster.note_batch(batch, dead_letters.counts)
        return dict(dead_letters.counts)

    def _send(self, batch: int, handle: Prepared, sender: Sender, highest: int, dead_letters: BatchDeadLetters) -> None:
        for flush in read_flushes(self._staging, handle):
            if not flush.lookup:
                dead_letters.write(handle, flush, sender.send(flush.bodies, highest))
            elif bodies := self._looked_for(handle, flush):
                sender.send(bodies, highest)
            crash_point("mid-commit", batch)

    def _looked_for(self, handle: Prepared, flush: BulkBodies) -> list[bytes]:
        """The deletes of documents that have to be looked up."""
        cluster = self._cluster
        cluster.refresh([handle.table])
        alias, number = cluster.names.alias(handle.table), int(handle.handle["version"])
        bodies = [deletes_of(cluster.client, alias, number, lines) for lines in flush.bodies]
        return [body for body in bodies if body]

    def _batch_dead_letters(self, batch: int) -> BatchDeadLetters:
        folder, pipeline = self._options.dead_letters or "", self._cluster.pipeline
        return BatchDeadLetters(
            self._cluster.index, lambda table: DeadLetters(folder, f"{pipeline}/{folder_of(table)}/batch-{batch}")
        )

    def _check_owner(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Raise SinkError when another run has committed this batch, or another pipeline has taken an index."""
        last = self._cluster.last_batch()
        if last >= batch:
            hint = "end this one; of two runs of a pipeline only the one that began last writes"
            raise SinkError(
                f"another run of this pipeline has committed batch {last}", where=f"batch {batch}", hint=hint
            )
        self._check_indexes(prepared)

    def _check_indexes(self, prepared: Sequence[Prepared]) -> None:
        """Raise SinkError when an index was deleted or taken by another pipeline since these documents were prepared.

        Without this check, a batch of deletes would not notice: the server creates a missing index for them.
        """
        indexes = self._cluster.indexes(list(dict.fromkeys(handle.table for handle in prepared)))
        for handle in prepared:
            index = indexes.get(handle.table) or self._cluster.index(handle.table)
            if index.pipeline != self._cluster.pipeline or index.epoch != epoch_of(handle.handle["version"]):
                raise foreign_index_error(index, handle.table)
