"""Databases, tables and columns as frozen values, and as JSON for the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cdc_standins.starrocks.errors import refused
from cdc_standins.starrocks.types import ColumnType

NOW = "CURRENT_TIMESTAMP"
"""The default that is computed; any other is the text between the quotes."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `id` never changes: staged rows name columns by it, so a rename does not lose them."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | None = None
    comment: str = ""
    key: bool = False
    id: int = -1

    @property
    def staged(self) -> str:
        """Its name among staged rows."""
        return f"c{self.id}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `primary` means PRIMARY KEY, otherwise DUPLICATE KEY. `version` counts schema changes,
    `data` numbers what holds the rows."""

    id: int
    database: str
    name: str
    columns: tuple[Column, ...]
    primary: bool
    distribution: tuple[str, ...] = ()
    buckets: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    version: int = 0
    next_column: int = 0
    data: int = 0

    @property
    def keys(self) -> tuple[Column, ...]:
        """Key columns in order."""
        return tuple(column for column in self.columns if column.key)

    @property
    def physical(self) -> str:
        """The name of its rows in DuckDB; TRUNCATE begins another one."""
        return f"$t{self.data}"

    @property
    def fast_evolution(self) -> bool:
        """ADD and DROP of value columns end at once. Chosen when the table is created."""
        return self.properties.get("fast_schema_evolution", "true").lower() == "true"

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def with_columns(self, columns: Iterable[Column]) -> Table:
        """The table after a schema change: new columns (id -1) get ids of their own."""
        numbered, number = [], self.next_column
        for column in columns:
            if column.id < 0:
                column = replace(column, id=number)
                number += 1
            numbered.append(column)
        return replace(self, columns=tuple(numbered), next_column=number, version=self.version + 1)


def to_json(table: Table) -> dict[str, Any]:
    """A table as plain values."""
    return asdict(table)


def from_json(values: dict[str, Any]) -> Table:
    """The table that `to_json` wrote."""
    columns = tuple(Column(**{**column, "type": ColumnType(**column["type"])}) for column in values["columns"])
    return Table(**{**values, "columns": columns, "distribution": tuple(values["distribution"])})


def check_name(name: str, what: str, longest: int) -> None:
    """Refuse a name that the server would. Raises SqlError."""
    if not name or len(name) > longest:
        raise refused(f"Incorrect {what} name '{name}'")
