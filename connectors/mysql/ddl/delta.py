"""A statement's changes to the catalog, as a value stored in the schema history. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from cdc.events import Uncertain
from cdc.schema import TableId
from connectors.mysql.ddl.cascades import Link
from connectors.mysql.table import MySqlColumn, MySqlTable

Mark = Literal["left", "sequence", "view", "arrived", "copy", "filled"]
"""`left`: a captured table was renamed away, its sink table still has this name. `sequence`, `view`: not a table.

`arrived`: in this entry a table is renamed in whose earlier rows must be copied; without meaning in later entries.
`copy`, `filled`: the copy that an online schema change makes of a captured table, as in `online`.
"""
NO_TABLES: Final[tuple[Mark, ...]] = ("sequence", "view")


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
        value["links"] = [link_to_json(link) for link in delta.links]
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
    links = tuple(map(link_from_json, value.get("links", ())))
    return Delta(tables, value.get("databases", {}), marks, uncertain, links)


def link_to_json(link: Link) -> list[Any]:
    """Convert a foreign key to [parent, child, columns, on delete, on update]; a table is [database, table]."""
    names = [[table.database, table.table] for table in (link.parent, link.child)]
    return [*names, list(link.columns), link.on_delete, link.on_update]


def link_from_json(value: Sequence[Any]) -> Link:
    """Read the foreign key that `link_to_json` wrote."""
    parent, child, columns, on_delete, on_update = value
    return Link(TableId(*parent), TableId(*child), tuple(columns), on_delete, on_update)


def table_to_json(table: MySqlTable) -> dict[str, Any]:
    """Convert a definition to an object without its name; omits column attributes with their default value."""
    value: dict[str, Any] = {"columns": [_column_to_json(column) for column in table.columns], "charset": table.charset}
    if table.primary_key:
        value["primary_key"] = list(table.primary_key)
    if table.comment:
        value["comment"] = table.comment
    return value


def table_from_json(table: TableId, value: Mapping[str, Any]) -> MySqlTable:
    """Read the definition that `table_to_json` wrote."""
    columns = tuple(MySqlColumn(**{**column, "labels": tuple(column.get("labels", ()))}) for column in value["columns"])
    return MySqlTable(table, columns, tuple(value.get("primary_key", ())), value["charset"], value.get("comment", ""))


def _column_to_json(column: MySqlColumn) -> dict[str, Any]:
    value = {one.name: getattr(column, one.name) for one in fields(column) if getattr(column, one.name) != one.default}
    return {**value, "labels": list(column.labels)} if column.labels else value
