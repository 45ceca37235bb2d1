"""One table of the library, and what the sink reads of it: columns, key, partitions, last batch, files.

| property of a table | value |
|---|---|
| `cdc.batch.<pipeline>` | the last committed batch of the pipeline; set in the commit of the batch's rows |
| `cdc.key` | field ids of a key that the format does not accept as one: with floating point numbers |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.iceberg.library import Catalog
from connectors.iceberg.types import VECTOR, arrow_type
from connectors.shared.lake.columns import LakeColumn
from connectors.shared.lake.errors import existing

BATCH, KEY = "cdc.batch.", "cdc.key"
_PIPELINE, _NUMBER = "cdc.pipeline", "cdc.batch"


def batch_summary(pipeline: str, batch: int) -> dict[str, str]:
    """The entries in the summary of a snapshot after which a table has all rows of the pipeline up to a batch."""
    return {_PIPELINE: pipeline, _NUMBER: str(batch)}


@dataclass(frozen=True)
class LakeTable:
    """One state of a table. `library` is the library's own object."""

    id: TableId
    library: Any

    @property
    def metadata(self) -> Any:
        """The library's `TableMetadata`."""
        return self.library.metadata

    @cached_property
    def columns(self) -> tuple[LakeColumn, ...]:
        """The columns in the table's order."""
        found = ((field, spelled(field.field_type)) for field in self.library.schema().fields)
        return tuple(LakeColumn(field.name, kind, not field.required, arrow_type(kind)) for field, kind in found)

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns in the table's order; empty for a table without a key."""
        key_ids = self.key_ids
        return tuple(field.name for field in self.library.schema().fields if field.field_id in key_ids)

    @property
    def key_ids(self) -> frozenset[int]:
        """The field ids of the key: the identifier fields, or those in the property."""
        named = self.metadata.properties.get(KEY, "").split(",")
        return frozenset(self.library.schema().identifier_field_ids or map(int, filter(None, named)))

    @property
    def identity(self) -> str:
        """The table's UUID, which stays the same after a rename; a later table of the same name has another."""
        return str(self.metadata.table_uuid)

    @property
    def head(self) -> int | None:
        """The id of the newest snapshot; None when there is none yet."""
        snapshot = self.library.current_snapshot()
        return None if snapshot is None else int(snapshot.snapshot_id)

    def file_prefix(self, pipeline: str) -> str:
        """The prefix of the pipeline's file names; it differs from the shadow table's, which is in the same folder."""
        return f"cdc-{pipeline}-{self.identity[:8]}"

    def batch(self, pipeline: str) -> int:
        """The last committed batch of a pipeline; -1 for none."""
        return int(self.metadata.properties.get(BATCH + pipeline, "-1"))

    def batch_of_head(self, pipeline: str) -> int:
        """The last batch of a pipeline in the current rows: less than `batch` after a rollback to an older snapshot.

        The snapshots from the head back tell it; that of the batch may have expired, then it is `batch`.
        """
        snapshot = self.library.current_snapshot()
        while snapshot is not None:
            summary, parent = snapshot.summary, snapshot.parent_snapshot_id
            if summary is not None and summary.get(_PIPELINE) == pipeline:
                return int(summary.get(_NUMBER))
            snapshot = None if parent is None else self.metadata.snapshot_by_id(parent)
        return self.batch(pipeline)

    def check(self) -> None:
        """Raise SinkError for a table that this sink cannot write correctly."""
        version = self.metadata.format_version
        if version != 2:
            first = "set its property format-version to 2" if version == 1 else "let it be recreated"
            hint = f"{first}: this sink writes format version 2"
            raise SinkError(f"the table has format version {version}", where=str(self.id), hint=hint)
        if self.metadata.properties.get("write.format.default", "parquet").lower() != "parquet":
            hint = "remove the property from the table"
            raise SinkError("write.format.default: only parquet is written", where=str(self.id), hint=hint)


def spelled(field_type: Any) -> str:
    """The canonical spelling of a type in a table's schema."""
    text = str(field_type)
    return VECTOR if text == "list<float>" else text


def find_table(catalog: Catalog, table: TableId) -> LakeTable | None:
    """Load the table; None when it does not exist. Raises SinkError."""
    found = catalog.table(table)
    return None if found is None else LakeTable(table, found)


def get_table(catalog: Catalog, table: TableId) -> LakeTable:
    """Load the table. Raises SinkError, also when it does not exist."""
    return existing(table, find_table(catalog, table))


def table_for_files(catalog: Catalog, table: TableId) -> LakeTable:
    """Load the table for writing data files, perhaps without its snapshots. Raises SinkError."""
    found = catalog.table(table, history=False)
    return existing(table, None if found is None else LakeTable(table, found))
