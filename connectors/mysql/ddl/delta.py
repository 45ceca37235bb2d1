"""A statement's changes to the catalog, as a value stored in the schema history. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from cdc.events import Uncertain
from cdc.schema import TableId
from connectors.mysql.ddl.cascades import Link
from connectors.mysql.table import MySqlTable

Mark = Literal["left", "sequence", "view", "arrived", "copy", "filled", "unknown"]
"""`left`: a captured table was renamed away, its sink table still has this name. `sequence`, `view`: not a table.

`arrived`: in this entry a table is renamed in whose earlier rows must be copied; without meaning in later entries.
`copy`, `filled`: the copy that an online schema change makes of a captured table, as in `online`.
`unknown`: a captured table whose definition here is unknown, as later statements redefine it; after the last one it is
snapshotted with the server's definition.
"""
LINKS, _TABLE = TypeAdapter(tuple[Link, ...]), TypeAdapter(MySqlTable)
"""To and from JSON values."""
NO_TABLES: Final[tuple[Mark, ...]] = ("sequence", "view")
UNREAD: Final[tuple[Mark, ...]] = ("sequence", "unknown")
"""Marks of names whose logged rows are not read."""
UNDEFINED: Final[tuple[Mark, ...]] = ("sequence", "view", "unknown")
"""Marks of names without a table definition."""


@dataclass(frozen=True, slots=True)
class Delta:
    """New values by name; None means removed.

    Attributes:
        tables: definitions, of captured and other tables.
        databases: default character sets.
        marks: names that denote something other than a captured table.
        uncertain: captured tables that must be re-snapshotted.
        links: foreign keys that the statement declares and that change rows unlogged.
    """

    tables: Mapping[TableId, MySqlTable | None] = field(default_factory=dict)
    databases: Mapping[str, str | None] = field(default_factory=dict)
    marks: Mapping[TableId, Mark | None] = field(default_factory=dict)
    uncertain: Mapping[TableId, Uncertain] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

    @property
    def arrived(self) -> list[TableId]:
        """Tables that are renamed in, whose rows must be copied."""
        return [table for table, mark in self.marks.items() if mark == "arrived"]

    def __bool__(self) -> bool:
        return bool(self.tables or self.databases or self.marks or self.uncertain or self.links)


def delta_to_json(delta: Delta) -> dict[str, Any]:
    """Convert a delta to an object: `tables` and `marks` are lists of [database, table, value].

    `uncertain` is a list of [database, table, reason, same rows].
    """
    value: dict[str, Any] = {
        "tables": [
            [table.database, table.table, None if definition is None else table_to_json(definition)]
            for table, definition in delta.tables.items()
        ]
    }
    if delta.databases:
        value["databases"] = dict(delta.databases)
    if delta.marks:
        value["marks"] = [[table.database, table.table, mark] for table, mark in delta.marks.items()]
    if delta.uncertain:
        value["uncertain"] = [
            [table.database, table.table, found.reason, found.same_rows] for table, found in delta.uncertain.items()
        ]
    if delta.links:
        value["links"] = LINKS.dump_python(delta.links, mode="json")
    return value


def delta_from_json(value: Mapping[str, Any]) -> Delta:
    """Read the delta that `delta_to_json` wrote."""
    tables = {
        TableId(database, name): None if definition is None else table_from_json(TableId(database, name), definition)
        for database, name, definition in value["tables"]
    }
    marks = {TableId(database, name): mark for database, name, mark in value.get("marks", ())}
    uncertain = {
        TableId(database, name): Uncertain(reason, same_rows)
        for database, name, reason, same_rows in value.get("uncertain", ())
    }
    links = LINKS.validate_python(value.get("links", ()))
    return Delta(tables, value.get("databases", {}), marks, uncertain, links)


def table_to_json(table: MySqlTable) -> dict[str, Any]:
    """Convert a definition to an object without its name; omits what has its default value."""
    found: dict[str, Any] = _TABLE.dump_python(table, mode="json", exclude={"id"}, exclude_defaults=True)
    return found


def table_from_json(table: TableId, value: Mapping[str, Any]) -> MySqlTable:
    """Read the definition that `table_to_json` wrote."""
    return _TABLE.validate_python({"id": table, **value})
