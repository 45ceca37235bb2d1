"""Stage the documents of a task as bulk bodies for the existing indexes. Runs in executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.block import ChangeBlock
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from connectors.elasticsearch.bodies import BodyWriter, write_bodies
from connectors.elasticsearch.bulk import version
from connectors.elasticsearch.cluster import SearchCluster
from connectors.elasticsearch.documents import DocumentTarget
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.staging.stage import StagingFolder


@dataclass(frozen=True)
class DocumentStaging:
    """Stages the documents of one pipeline in its state directory. Picklable."""

    cluster: SearchCluster
    options: ElasticsearchSinkOptions
    folder: StagingFolder

    def stage(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the bodies of the task's documents into one synced file."""
        found: dict[TableId, DocumentTarget] = {}

        def place(table: TableId) -> DocumentTarget:
            if table not in found:
                found[table] = self._place(table, task)
            return found[table]

        def writer(file: Any) -> BodyWriter:
            unique = f"{self.cluster.pipeline}-{task.batch}-{task.partition}"
            keyless = KeylessChanges(self.options.keyless_changes)
            size, connections = self.options.bulk_bytes, self.options.connections
            dead_letters = self.options.rejected_values == "dead-letter"
            return BodyWriter(file, place, keyless, size, connections, unique, with_positions=dead_letters)

        return write_bodies(self.folder, task, blocks, writer)

    def _place(self, table: TableId, task: TaskAttempt) -> DocumentTarget:
        index = self.cluster.own_index(table)
        return DocumentTarget(
            table,
            self.cluster.names.alias(table),
            version(index.epoch, task.batch, task.partition),
            texts=frozenset(name for name, field in index.fields.items() if field.get("type") == "keyword"),
            objects=index.objects,
            routing=index.routing,
            sharding=index.sharding,
            index=index.name,
            all_numbers=self.options.ignore_malformed or self.options.rejected_values == "dead-letter",
        )
