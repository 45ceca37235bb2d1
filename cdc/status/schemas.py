"""The schemas of a pipeline's sink tables with their history, from its state directory. Any process, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc.errors import StateError
from cdc.flow.sink_schemas import FILE, KIND
from cdc.schema import TableSchema
from cdc.schema_json import schema_from_json, table_from_json
from cdc.state.store import RESTORE, LocalStore


@dataclass(frozen=True, slots=True)
class ColumnView:
    """One column of a version, as text."""

    name: str
    type: str
    nullable: bool
    key: bool
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A table's schema from a batch on; without columns when the table went. Versions count from 1."""

    version: int
    batch: int
    columns: tuple[ColumnView, ...]

    @property
    def dropped(self) -> bool:
        """Whether the table is gone from here on."""
        return not self.columns


def schema_history(root: Path) -> Mapping[str, Sequence[Version]]:
    """The versions of each sink table, oldest first. Raises StateError when the log is damaged."""
    log = LocalStore(root).log(FILE, KIND)
    found: defaultdict[str, list[Version]] = defaultdict(list)
    try:
        for entry in log.items(0, len(log)):
            for name, fields in entry["tables"]:
                table = str(table_from_json(name))
                columns = () if fields is None else _columns(schema_from_json(fields))
                found[table].append(Version(len(found[table]) + 1, int(entry["batch"]), columns))
    except (ValueError, LookupError, TypeError) as error:
        raise StateError(f"an entry cannot be read: {error!r}", where=str(root / FILE), hint=RESTORE) from error
    return dict(sorted(found.items()))


def _columns(schema: TableSchema) -> tuple[ColumnView, ...]:
    return tuple(
        ColumnView(column.name, str(column.type), column.nullable, column.name in schema.primary_key, column.comment)
        for column in schema.columns
    )
