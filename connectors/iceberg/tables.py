"""A table as the library has it, and the parts of it that the sink reads: columns, key, partitions, fence, files.

| property of a table | value |
|---|---|
| `cdc.batch.<pipeline>` | the last batch of the pipeline that is in; set in the commit of the batch's rows |
| `cdc.key` | field ids of a key that the format takes for none: one with floating point numbers |
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
        """In the table's order."""
        found = ((field, spelled(field.field_type)) for field in self.library.schema().fields)
        return tuple(LakeColumn(field.name, kind, not field.required, arrow_type(kind)) for field, kind in found)

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns in the table's order; empty for a table that only grows."""
        wanted = self.key_ids
        return tuple(field.name for field in self.library.schema().fields if field.field_id in wanted)

    @property
    def key_ids(self) -> frozenset[int]:
        """Field ids of the key: the identifier fields, or those of the property."""
        named = self.metadata.properties.get(KEY, "").split(",")
        return frozenset(self.library.schema().identifier_field_ids or map(int, filter(None, named)))

    @property
    def identity(self) -> str:
        """The table's UUID: the same under another name, and different for a later table of its name."""
        return str(self.metadata.table_uuid)

    @property
    def head(self) -> int | None:
        """The newest snapshot, None for a table without rows so far."""
        snapshot = self.library.current_snapshot()
        return None if snapshot is None else int(snapshot.snapshot_id)

    def file_prefix(self, pipeline: str) -> str:
        """Begins the names of a pipeline's files: a table and its shadow table are in one folder."""
        return f"cdc-{pipeline}-{self.identity[:8]}"

    def batch(self, pipeline: str) -> int:
        """The last batch of a pipeline that is in, -1 for none."""
        return int(self.metadata.properties.get(BATCH + pipeline, "-1"))

    def check(self) -> None:
        """Raise SinkError for a table that cannot be written right."""
        version = self.metadata.format_version
        if version != 2:
            hint = "let it be recreated: this sink writes format version 2"
            raise SinkError(f"the table has format version {version}", where=str(self.id), hint=hint)
        if self.metadata.properties.get("write.format.default", "parquet").lower() != "parquet":
            raise SinkError("write.format.default: only parquet is written", where=str(self.id))


def spelled(field_type: Any) -> str:
    """One spelling for a type as a table's schema has it."""
    text = str(field_type)
    return VECTOR if text == "list<float>" else text


def find_table(catalog: Catalog, table: TableId) -> LakeTable | None:
    """The table as it is now, None when there is none. Raises SinkError."""
    found = catalog.table(table)
    return None if found is None else LakeTable(table, found)


def get_table(catalog: Catalog, table: TableId) -> LakeTable:
    """The table, as `find_table`. Raises SinkError when there is none."""
    return existing(table, find_table(catalog, table))


def table_for_files(catalog: Catalog, table: TableId) -> LakeTable:
    """The table as it is now, for those who write files of it; it need not have its snapshots. Raises SinkError."""
    found = catalog.table(table, history=False)
    return existing(table, None if found is None else LakeTable(table, found))
