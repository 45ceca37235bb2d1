"""Which foreign keys change rows unlogged, and of which tables: kept in the connector's state as `cascades.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any

from cdc.schema import RenameTable, TableId
from cdc.schema_json import table_from_json, table_to_json
from cdc.state.store import Store
from connectors.mysql.ddl.cascades import Link
from connectors.mysql.ddl.delta import link_from_json, link_to_json
from connectors.mysql.schema.history import SchemaEntry

FILE = "cascades.json"
REQUEST = "cascade-"
"""How names of requests begin that stand for what foreign keys did to a table; its `short_name` follows."""

Links = Sequence[Link]


@dataclass(slots=True)
class Parent:
    """A table whose rows others refer to: which tables a delete changes, and which an update of these columns."""

    deletes: set[TableId] = field(default_factory=set)
    updates: set[TableId] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)


Parents = Mapping[TableId, Parent]


def parents_of(links: Links, captures: Callable[[TableId], bool]) -> dict[TableId, Parent]:
    """The parents to look for, given the foreign keys that are not logged: children of children included. Pure."""
    below: dict[TableId, set[TableId]] = {}
    for link in links:
        below.setdefault(link.parent, set()).add(link.child)
    found: dict[TableId, Parent] = {}
    for link in links:
        parent = found.setdefault(link.parent, Parent())
        reached = set(filter(captures, _tables_below(link.child, below)))
        if link.on_delete:
            parent.deletes |= reached
        if link.on_update:
            parent.updates |= reached
            parent.columns |= set(link.columns)
    return found


def _tables_below(table: TableId, below: Mapping[TableId, set[TableId]]) -> set[TableId]:
    found, left = set[TableId](), [table]
    while left:
        table = left.pop()
        if table not in found:
            found.add(table)
            left += below.get(table, ())
    return found


def united(one: Parents, other: Parents) -> dict[TableId, Parent]:
    """The targets of either. Pure."""
    found: dict[TableId, Parent] = {}
    for table in {**one, **other}:
        parents = [each[table] for each in (one, other) if table in each]
        found[table] = Parent(
            set().union(*(parent.deletes for parent in parents)),
            set().union(*(parent.updates for parent in parents)),
            set().union(*(parent.columns for parent in parents)),
        )
    return found


def followed(links: Iterable[Link], entries: Iterable[SchemaEntry]) -> list[Link]:
    """The foreign keys, with those that entries of the schema history declare, under all names that these give the
    tables. One that is dropped stays: its time is not known to be over. Pure."""
    found = dict.fromkeys(links)
    for entry in entries:
        found |= dict.fromkeys(entry.delta.links)
        for change in entry.changes:
            if isinstance(change, RenameTable):
                found |= {
                    replace(link, parent=parent, child=child): None
                    for link in found
                    for parent in _names(link.parent, change)
                    for child in _names(link.child, change)
                }
    return list(found)


def _names(table: TableId, rename: RenameTable) -> tuple[TableId, ...]:
    """The table's names, before and behind a rename. MariaDB's key of a table to itself refers to the old one still,
    where the ALTER TABLE that adds it renames the table too."""
    return (table, rename.new_table) if table == rename.table else (table,)


def write_targets(store: Store, parents: Parents, links: Iterable[Link] = ()) -> None:
    """Keep the targets for the tasks, and what they are from. Stream reader process. Raises StateError."""
    fields = [
        {
            "table": table_to_json(table),
            "deletes": [table_to_json(child) for child in sorted(parent.deletes)],
            "updates": [table_to_json(child) for child in sorted(parent.updates)],
            "columns": sorted(parent.columns),
        }
        for table, parent in sorted(parents.items())
    ]
    store.write_json(FILE, {"parents": fields, "links": [link_to_json(link) for link in links]})


def read_targets(store: Store) -> dict[TableId, Parent]:
    """The targets that `write_targets` wrote; empty before. Raises StateError."""
    fields: Sequence[dict[str, Any]] = (store.read_json(FILE) or {}).get("parents", ())
    return {
        table_from_json(each["table"]): Parent(
            {table_from_json(child) for child in each["deletes"]},
            {table_from_json(child) for child in each["updates"]},
            set(each["columns"]),
        )
        for each in fields
    }


def read_links(store: Store) -> list[Link]:
    """The foreign keys that `write_targets` wrote; none before, and none of an earlier release. Raises StateError."""
    return [link_from_json(each) for each in (store.read_json(FILE) or {}).get("links", ())]


def keep_links(store: Store, links: Links, captures: Callable[[TableId], bool]) -> None:
    """Only these foreign keys count from here on. Raises StateError."""
    write_targets(store, parents_of(links, captures), links)


def add_links(store: Store, links: Links, captures: Callable[[TableId], bool]) -> None:
    """Further foreign keys count; targets of an earlier release, which kept no keys, stay. Raises StateError."""
    known = list(dict.fromkeys((*read_links(store), *links)))
    write_targets(store, united(read_targets(store), parents_of(known, captures)), known)


def short_name(table: TableId) -> str:
    """A name for a table that may be part of a file's."""
    return md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]
