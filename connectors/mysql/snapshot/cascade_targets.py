"""Foreign keys whose row changes are not logged, and the tables they change; state file `cascades.json`."""

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
"""Prefix of the names of re-snapshot requests caused by foreign keys; the table's `short_name` follows."""

Links = Sequence[Link]


@dataclass(slots=True)
class Parent:
    """A table referred to by others: the tables changed by its deletes, and those changed by updates of `columns`."""

    deletes: set[TableId] = field(default_factory=set)
    updates: set[TableId] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)


Parents = Mapping[TableId, Parent]


def parents_of(links: Links, captures: Callable[[TableId], bool]) -> dict[TableId, Parent]:
    """Return the parents to watch, from the foreign keys that are not logged; includes children of children. Pure."""
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
    """Merge the targets of both. Pure."""
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
    """Return the foreign keys and those declared by history entries, under all names that these give the tables.

    A dropped foreign key stays, as rows from its time may still be ahead. Pure.
    """
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
    """Return the table's names before and after a rename.

    If one MariaDB ALTER TABLE adds a key of a table to itself and renames the table, the key still refers to the old
    name.
    """
    return (table, rename.new_table) if table == rename.table else (table,)


def write_targets(store: Store, parents: Parents, links: Iterable[Link] = ()) -> None:
    """Store the targets for the tasks, and the foreign keys they derive from. Stream reader process.

    Raises StateError.
    """
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
    """Read what `write_targets` wrote; empty before the first write. Raises StateError."""
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
    """Read the foreign keys that `write_targets` wrote; none before, and none from an earlier release.

    Raises StateError.
    """
    return [link_from_json(each) for each in (store.read_json(FILE) or {}).get("links", ())]


def store_links(store: Store, links: Links, captures: Callable[[TableId], bool]) -> None:
    """Make these the only foreign keys in effect. Raises StateError."""
    write_targets(store, parents_of(links, captures), links)


def add_links(store: Store, links: Links, captures: Callable[[TableId], bool]) -> None:
    """Add foreign keys; targets of an earlier release, which stored no foreign keys, stay. Raises StateError."""
    known = list(dict.fromkeys((*read_links(store), *links)))
    write_targets(store, united(read_targets(store), parents_of(known, captures)), known)


def short_name(table: TableId) -> str:
    """Return a name for a table that can be part of a file name."""
    return md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]
