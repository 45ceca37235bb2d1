"""One table of the library, and what the sink reads of it: columns, keys, buckets, the pipelines that write to it.

The sink sets these options on a table, so that every process finds them with the schema:

| option | value |
|---|---|
| `cdc.table-id` | a random text, chosen when the table is created; a later table of the same name has another |
| `cdc.sequence-base.<pipeline>` | the number above which a pipeline's sequence numbers begin |
| `cdc.fill.<column>` | set while existing rows still lack the column's default |
| `cdc.swap` | the table that this one is about to replace |
| `cdc.dropped` | set while the table is being dropped: it counts as gone, as some of its rows may be |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.paimon.library import Catalog, identifier
from connectors.paimon.options import existing_problems
from connectors.paimon.types import arrow_type, spelled
from connectors.shared.lake.columns import LakeColumn
from connectors.shared.lake.errors import existing

TABLE_ID, SEQUENCE_BASE, FILL, SWAP = "cdc.table-id", "cdc.sequence-base.", "cdc.fill.", "cdc.swap"


@dataclass(frozen=True, slots=True, eq=False)
class LakeTable:
    """One state of a table's schema. `library` is the library's own object."""

    id: TableId
    library: Any

    @property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The columns in the table's order."""
        fields = ((field.name, spelled(str(field.type)), field.type.nullable) for field in self.library.fields)
        return tuple(LakeColumn(name, kind, nullable, arrow_type(kind)) for name, kind, nullable in fields)

    @property
    def options(self) -> dict[str, str]:
        """The options that are stored with the table."""
        return {str(key): str(value) for key, value in self.library.table_schema.options.items()}

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, including the partition columns; empty for a table without a key."""
        return tuple(self.library.primary_keys)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return tuple(self.library.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns whose hash gives the bucket."""
        return tuple(self.library.table_schema.bucket_keys)

    @property
    def buckets(self) -> int:
        """The number of buckets in a partition; below 1 for a table without buckets."""
        return int(self.library.options.bucket())

    @property
    def identity(self) -> str:
        """The identity of the table, independent of its name; empty for a table that this tool never wrote to."""
        return self.options.get(TABLE_ID, "")

    def sequence_base(self, pipeline: str) -> int:
        """The number above which the pipeline's sequence numbers begin. Raises SinkError unless it has the table."""
        text = self.options.get(SEQUENCE_BASE + pipeline)
        if text is None:
            raise SinkError(
                "this is not the table that the pipeline wrote to: it was recreated, or another took its name",
                where=str(self.id),
                hint="`cdc resync` re-snapshots the table",
            )
        return int(text)

    def check(self) -> None:
        """Raise SinkError for a table that this sink cannot write correctly."""
        if self.key and not set(self.partition_keys) <= set(self.key):
            raise SinkError("the key lacks the partition columns", where=str(self.id), hint="recreate the table")
        for remark in existing_problems(self.options, keyed=bool(self.key)):
            raise SinkError(f"its option {remark.key}: {remark.message}", where=str(self.id), hint=remark.hint)


def find_table(catalog: Catalog, table: TableId) -> LakeTable | None:
    """Load the table; None when it does not exist. Raises SinkError."""
    found = catalog.table(table)
    return None if found is None else LakeTable(table, found)


def get_table(catalog: Catalog, table: TableId) -> LakeTable:
    """Load the table. Raises SinkError, also when it does not exist."""
    return existing(table, find_table(catalog, table))


def claim(catalog: Catalog, table: LakeTable, pipeline: str) -> LakeTable:
    """Note that the pipeline writes to a table, with sequence numbers above those of the existing rows.

    Does nothing for a table that the pipeline has claimed or created. Raises SinkError.
    """
    if SEQUENCE_BASE + pipeline in table.options:
        return table
    from pypaimon.schema.schema_change import SchemaChange

    base = str(greatest_sequence(catalog, table))
    changes = [SchemaChange.set_option(SEQUENCE_BASE + pipeline, base)]
    if not table.identity:
        changes.append(SchemaChange.set_option(TABLE_ID, uuid4().hex))
    with catalog.guard(str(table.id)):
        catalog.open().alter_table(identifier(table.id), changes, False)
    return get_table(catalog, table.id)


def live_files(catalog: Catalog, table: LakeTable, snapshot: Any = None, *, whole: bool = False) -> list[Any]:
    """The manifest entries of a snapshot's files, by default of the newest one; `whole` includes the statistics.

    Raises SinkError.
    """
    from pypaimon.manifest.manifest_file_manager import ManifestFileManager
    from pypaimon.manifest.manifest_list_manager import ManifestListManager

    with catalog.guard(str(table.id)):
        snapshot = snapshot or table.library.snapshot_manager().get_latest_snapshot()
        if snapshot is None:
            return []
        manifests = ManifestListManager(table.library).read_all(snapshot)
        return list(ManifestFileManager(table.library).read_entries_parallel(manifests, drop_stats=not whole))


def greatest_sequence(catalog: Catalog, table: LakeTable) -> int:
    """The greatest sequence number in the table's files; 0 when it has none. Raises SinkError."""
    return max((entry.file.max_sequence_number for entry in live_files(catalog, table)), default=0)
