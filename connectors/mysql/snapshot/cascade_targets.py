"""Foreign keys whose row changes are not logged, and the tables they change; state file `cascades.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.schema import RenameTable, TableId
from cdc.state.store import Store
from connectors.mysql.ddl.cascades import Link
from connectors.mysql.ddl.delta import LINKS
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


def links_after(links: Iterable[Link], entries: Iterable[SchemaEntry]) -> list[Link]:
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


def write_links(store: Store, links: Iterable[Link]) -> None:
    """Make these the foreign keys in effect. Stream reader process. Raises StateError."""
    store.write_json(FILE, {"links": LINKS.dump_python(tuple(links), mode="json")})


def read_links(store: Store) -> tuple[Link, ...]:
    """Read what `write_links` wrote; empty before the first write. Raises StateError."""
    return LINKS.validate_python((store.read_json(FILE) or {}).get("links", ()))
