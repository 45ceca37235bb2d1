"""Reads the schema history of a pipeline's sink tables from its state directory. Any process, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc.schema import TableSchema
from cdc.state.store import LocalStore
from cdc.tables.log import TableLog


@dataclass(frozen=True, slots=True)
class ColumnView:
    """One column of a version, as text."""

    name: str
    type: str
    nullable: bool
    key: bool
    comment: str = ""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A table's schema from a batch on; without columns when the table was dropped. Versions count from 1."""

    version: int
    batch: int
    columns: tuple[ColumnView, ...]

    @property
    def dropped(self) -> bool:
        """Whether the table was dropped."""
        return not self.columns


def schema_history(root: Path) -> Mapping[str, Sequence[SchemaVersion]]:
    """Return the versions of each sink table, oldest first. Raises StateError when the log is damaged."""
    found: defaultdict[str, list[SchemaVersion]] = defaultdict(list)
    for batch, changed in TableLog(LocalStore(root)).sink_tables():
        for table, schema in changed.items():
            versions = found[str(table)]
            versions.append(SchemaVersion(len(versions) + 1, batch, () if schema is None else _columns(schema)))
    return dict(sorted(found.items()))


def _columns(schema: TableSchema) -> tuple[ColumnView, ...]:
    return tuple(
        ColumnView(column.name, str(column.type), column.nullable, column.name in schema.primary_key, column.comment)
        for column in schema.columns
    )
