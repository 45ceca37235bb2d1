"""The sink `elasticsearch`: executors write finished bulk bodies, the driver sends those of a decided batch in order.

Readers see the documents of a batch as they arrive. Sending again changes nothing: each document has an external
version made of the pipeline's epoch, the batch and its part, and an older image never takes the place of a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters
from cdc.errors import ChangeRefused, SinkError
from cdc.evolution.journal import Journal
from cdc.faults import reached
from cdc.finding import Finding, error, ok, warning
from cdc.retry import RetryPolicy
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema, shadow_of
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, StoredTable, TaskAttempt
from cdc.source import Context
from connectors.elasticsearch.bodies import (
    BodyWriter,
    BulkBodies,
    read_flushes,
    staged_path,
    tables_in_order,
    write_bodies,
)
from connectors.elasticsearch.bulk import Sender, epoch_of, version
from connectors.elasticsearch.client import ErrorAnswer, SearchClient
from connectors.elasticsearch.cluster import HINTS, SearchCluster
from connectors.elasticsearch.documents import DocumentPlace
from connectors.elasticsearch.indexes import Index, IndexPlanner
from connectors.elasticsearch.letters import BatchDeadLetters
from connectors.elasticsearch.lookup import deletes_of
from connectors.elasticsearch.mapping import IndexNames
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.read_back import Documents
from connectors.elasticsearch.settings import client_of, rules_of
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.staging.stage import batch_folder, staged_until

log = logging.getLogger(__name__)


class ElasticsearchSink(Sink):
    """Writes documents into one cluster. Picklable; connections are opened when they are needed."""

    delivery: ClassVar[Delivery] = Delivery.IDEMPOTENT
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS
    shadows: ClassVar[bool] = True

    def __init__(self, options: ElasticsearchSinkOptions, context: Context) -> None:
        self._options, self._pipeline, self._store = options, context.pipeline, context.store
        retry = RetryPolicy(options.retry_timeout_s, stopping=context.stopping, waiting=context.waiting)
        self._client: SearchClient = client_of(options, retry)
        self._names = IndexNames(options.index_prefix, options.index_suffix)
        self._cluster = SearchCluster(self._client, self._names, self._pipeline)
        self._begun: int | None = None

    def check(self) -> None:
        """Ask the cluster what it is, and warn of indexes that forget deletes early. Driver. Raises SinkError."""
        self._cluster.product(wait=False)
        for finding in self._examine_deletes(own=True):
            log.warning("%s; %s", finding.told, finding.fix)

    def last_committed_batch(self) -> int:
        """The batch that the pipeline's own document tells of. Driver."""
        return self._cluster.last_batch()

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """Tables without an index. Driver."""
        found = self._cluster.indexes(tables)
        return [table for table in tables if table not in found]

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as its index's mapping has it. Driver."""
        found = self._cluster.indexes([table]).get(table)
        return None if found is None else found.schema

    def holds_rows(self, table: TableId) -> bool:
        """Whether its index has documents. Driver."""
        return bool(self._cluster.indexes([table])) and self._cluster.has_documents(table)

    def plan_text(self, changes: Sequence[SchemaChange]) -> list[str]:
        """The requests that `apply` would send now. Driver."""
        planner = self._planner(changes)
        return [f"{request.method} {request.path}" for change in changes for request in planner.plan(change)]

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the indexes as they are. Driver."""
        journal = Journal(self._store, batch, changes)
        left = changes[journal.done :]
        if not left:
            return
        planner = self._planner(left)
        planned = [planner.plan(change) for change in left]
        for change, requests in zip(left, planned, strict=True):
            for request in requests:
                try:
                    self._cluster.carry_out(request)
                except ErrorAnswer as refused:
                    hint = next(
                        (hint for words, hint in HINTS.items() if words in refused.reason), "see the cluster's log"
                    )
                    raise ChangeRefused(str(refused), where=str(change.table), hint=hint) from None
                reached("mid-apply", batch)
            journal.note(journal.done + 1)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the bodies of the task's documents into one synced file. Executor."""
        found: dict[TableId, DocumentPlace] = {}

        def place(table: TableId) -> DocumentPlace:
            if table not in found:
                found[table] = self._place(table, task)
            return found[table]

        def writer(file: Any) -> BodyWriter:
            unique = f"{self._pipeline}-{task.batch}-{task.partition}"
            keyless = KeylessChanges(self._options.keyless_changes)
            size, letters = self._options.bulk_bytes, self._options.rejected_values == "dead-letter"
            return BodyWriter(file, place, keyless, size, unique, with_positions=letters)

        prepared = write_bodies(self._directory, task, blocks, writer)
        if prepared:
            self._store.keep(staged_path(self._directory, prepared[0]))
        return prepared

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> dict[str, int]:
        """Send all bodies, table by table in the order of the log. Driver; sending again changes nothing.

        Raises SinkError for a document that the cluster refuses, unless such are dead letters, SinkUnavailable when it
        stays away.
        """
        last = self._cluster.last_batch()
        counts = self._sent(batch, prepared, first=last < 0) if batch > last else self._cluster.counts_of(batch)
        for folder in staged_until(self._directory, batch):
            self._store.drop(folder)
        return counts

    def _sent(self, batch: int, prepared: Sequence[Prepared], *, first: bool) -> dict[str, int]:
        """Send a batch and note that it is in; what was left out."""
        if first:
            self._cluster.make_commits()
        self._check_indexes(prepared)
        again, self._begun = self._begun is None or batch <= self._begun, batch
        letters, keep = self._letters(batch), self._options.rejected_values == "dead-letter"
        sender = Sender(self._client, self._options.connections, lambda: self._check_owner(batch, prepared), keep)
        with letters.of([handle.table for handle in prepared] if keep else [], again=again):
            for handles in tables_in_order(prepared):
                highest = max((handle.handle["version"] for handle in handles), default=0)
                for handle in handles:
                    for flush in read_flushes(self._directory, handle):
                        if not flush.lookup:
                            letters.keep(handle, flush, sender.send(flush.bodies, highest))
                        elif bodies := self._looked_for(handle, flush):
                            sender.send(bodies, highest)
                        reached("mid-commit", batch)
        if self._options.refresh == "true":
            self._cluster.refresh([handle.table for handle in prepared])
        self._cluster.note_batch(batch, letters.counts)
        return dict(letters.counts)

    def _looked_for(self, handle: Prepared, flush: BulkBodies) -> list[bytes]:
        """Deletes of documents whose routing nobody told."""
        self._cluster.refresh([handle.table])
        alias, number = self._names.alias(handle.table), int(handle.handle["version"])
        bodies = [deletes_of(self._client, alias, number, lines) for lines in flush.bodies]
        return [body for body in bodies if body]

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the bodies of a batch that was never decided. Driver."""
        self._store.drop(batch_folder(self._directory, batch))

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The documents of a table. Any process."""
        found = self._cluster.indexes([table]).get(table)
        if found is None:
            return None
        if not schema.primary_key:
            return "a table without a key: its documents only grow"
        return Documents(self._client, self._names.alias(table), schema, routed=bool(found.routing))

    def examine(self) -> Iterator[Finding]:
        """The cluster's product, version and health."""
        product, number = self._cluster.product(wait=False)
        yield ok("version", f"{product} {number}")
        try:
            health = self._client.ask("GET", "/_cluster/health", wait=False)
        except ErrorAnswer as refused:
            yield error("health", str(refused), "grant the user the cluster privilege `monitor`")
            return
        status = str(health["status"])
        if status == "red":
            yield warning(
                "health", "the cluster is red: some shards take no documents", "see _cluster/allocation/explain"
            )
        else:
            yield ok("health", f"the cluster is {status}, {health['number_of_nodes']} nodes")
        yield from self._examine_deletes(own=False)

    def _examine_deletes(self, *, own: bool) -> Iterator[Finding]:
        """Indexes whose deletes are forgotten before a request has surely ended; `own`: of this pipeline only."""
        least = self._options.request_timeout_s
        for index, gc_deletes in sorted(self._cluster.deletes_kept_s(own=own).items()):
            if gc_deletes <= least:
                text = f"{index} forgets deletes after {gc_deletes:g} s, a request may take {least:g} s: a late one "
                hint = f'PUT /{index}/_settings {{"index.gc_deletes": "{self._options.gc_deletes}"}}'
                yield warning("gc_deletes", f"{text}brings a deleted document back", hint)

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
        """Raise SinkError when another pipeline has taken an index since these documents were prepared."""
        indexes = self._cluster.indexes(list(dict.fromkeys(handle.table for handle in prepared)))
        for handle in prepared:
            index = indexes.get(handle.table)  # a missing one is refused by the server: `require_alias`
            if index is not None and (
                index.pipeline != self._pipeline or index.epoch != epoch_of(handle.handle["version"])
            ):
                raise _taken(index, handle.table)

    def _planner(self, changes: Sequence[SchemaChange]) -> IndexPlanner:
        tables = list(dict.fromkeys(change.table for change in changes))
        tables += [change.new_table for change in changes if isinstance(change, RenameTable)]
        wanted = [*tables, *(shadow_of(table) for table in tables)]
        behind, highest = self._cluster.behind(wanted), self._cluster.highest(tables)
        rules = rules_of(self._options, self._cluster.product()[0])
        return IndexPlanner(self._names, rules, self._pipeline, behind, highest, self._options.settings())

    def _letters(self, batch: int) -> BatchDeadLetters:
        place = self._options.dead_letters or ""
        return BatchDeadLetters(
            self._index, lambda table: DeadLetters(place, f"{self._pipeline}/{table}/batch-{batch}")
        )

    def _index(self, table: TableId) -> Index:
        index = self._cluster.indexes([table]).get(table)
        if index is None:
            hint = "it was deleted or renamed in the cluster; `cdc resync` re-snapshots the table"
            raise SinkError("there is no index", where=str(table), hint=hint)
        return index

    def _place(self, table: TableId, task: TaskAttempt) -> DocumentPlace:
        index = self._index(table)
        if index.pipeline != self._pipeline:
            raise _taken(index, table)
        fields = {name: field.get("type", "object") for name, field in index.fields.items()}
        return DocumentPlace(
            table,
            self._names.alias(table),
            version(index.epoch, task.batch, task.partition),
            texts=frozenset(name for name, kind in fields.items() if kind == "keyword"),
            objects=frozenset(name for name, kind in fields.items() if kind in ("object", "flattened", "flat_object")),
            routing=index.routing,
            all_numbers=self._options.ignore_malformed or self._options.rejected_values == "dead-letter",
        )

    @property
    def _directory(self) -> Path:
        """The directory on the machine that asks."""
        return self._store.bulk("")


def _taken(index: Index, table: TableId) -> SinkError:
    hint = "end this one; of two pipelines only the one that began last writes a table's index"
    return SinkError(f"the index {index.name} was taken by another pipeline", where=str(table), hint=hint)
