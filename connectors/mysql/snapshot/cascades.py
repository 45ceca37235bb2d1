"""Rows that foreign keys change without a word in the log: re-snapshots of their tables (`foreign-key-cascades: copy`).

    stream reader   at the start of a run, and behind changes of schemas: asks the server which foreign keys do so,
                    `cascades.json` in the connector's state; those known before stay until the log is read so far, as
                    what is behind may be from their time
    task            a row of a parent is deleted, or its referenced columns change: leaves a request for the children
    stream reader   takes up a request once the copy before is through and the interval has passed, or the log comes to
                    a RENAME of its table

A request that waits stands for all that come meanwhile: its copy reads the table later than any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SourceUnavailable
from cdc.schema import TableId
from cdc.schema_json import table_from_json, table_to_json
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.server.foreign_keys import Link, unlogged_links
from connectors.mysql.server.information_schema import table_ids
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import end_of_log, server_info
from connectors.mysql.snapshot.plan.requests import Requests
from connectors.mysql.snapshot_options import SnapshotOptions

FILE = "cascades.json"
REASON = "rows of a table that it refers to were deleted or changed, and this server does not log what follows"
_PREFIX = "cascade-"


@dataclass(slots=True)
class Parent:
    """A table whose rows others refer to: which tables a delete changes, and which an update of these columns."""

    deletes: set[TableId] = field(default_factory=set)
    updates: set[TableId] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)


Parents = Mapping[TableId, Parent]


def parents_of(links: Sequence[Link], captured: Collection[TableId]) -> dict[TableId, Parent]:
    """The parents to look for, given the foreign keys that are not logged: children of children included. Pure."""
    below: dict[TableId, set[TableId]] = {}
    for link in links:
        below.setdefault(link.parent, set()).add(link.child)
    found: dict[TableId, Parent] = {}
    for link in links:
        parent = found.setdefault(link.parent, Parent())
        reached = _tables_below(link.child, below) & set(captured)
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


def write_targets(store: Store, parents: Parents) -> None:
    """Keep the targets for the tasks. Stream reader process. Raises StateError."""
    fields = [
        {
            "table": table_to_json(table),
            "deletes": [table_to_json(child) for child in sorted(parent.deletes)],
            "updates": [table_to_json(child) for child in sorted(parent.updates)],
            "columns": sorted(parent.columns),
        }
        for table, parent in sorted(parents.items())
    ]
    store.write_json(FILE, {"parents": fields})


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


def place_of(part: LogRange) -> str:
    """A name for where a part of the log begins, which no other part has: files of another server may be called alike,
    and those of a log that was reset. Pure."""
    return str(sequence_of(part.start.file, part.start.position, part.files_ahead))


def watch_parents(blocks: Iterator[ChangeBlock], store: Store, place: str) -> Iterator[ChangeBlock]:
    """The blocks of a part of the log; asks for tables whose rows they change unlogged, once for each part. Executor.

    `place` is where the part begins (`place_of`). Requests are on disk before the part's rows are prepared; a repeat
    asks the same.
    """
    parents, requested, requests = read_targets(store), set[TableId](), Requests(store)
    for block in blocks:
        parent = parents.get(block.table)
        for child in sorted((set() if parent is None else changed_by(block, parent)) - requested):
            requested.add(child)
            requests.add(child, f"{_PREFIX}{_name(child)}-{place}", REASON, limited=True)
        yield block


def changed_by(block: ChangeBlock, parent: Parent) -> set[TableId]:
    """The tables of which rows change with those of a parent's block. Pure."""
    kinds, found = block.kinds.to_numpy(), set[TableId]()
    if parent.deletes and bool(np.any(kinds == RowKind.DELETE)):
        found |= parent.deletes
    before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
    if not parent.updates or not len(before):
        return found
    folded = {name.casefold() for name in parent.columns}
    if not folded <= {name.casefold() for name in block.schema.names}:
        return found | parent.updates  # one was renamed since
    for index, name in enumerate(block.schema.names):
        if name.casefold() in folded:
            column = block.rows.column(index)
            old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
            same = pc.fill_null(pc.equal(old, new), False)
            if not pc.all(pc.or_(same, pc.and_(pc.is_null(old), pc.is_null(new)))).as_py():
                return found | parent.updates
    return found


def _name(table: TableId) -> str:
    return md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]


class DueRequests:
    """Which requests may be taken up. Stream reader process.

    Args:
        interval_s: between the beginnings of two copies of a table.
    """

    def __init__(self, requests: Requests, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests, self._interval_s, self._clock = requests, interval_s, clock
        self._begun: dict[str, float] = {}

    def select(
        self,
        names: Collection[str],
        copying: Collection[TableId],
        *,
        renamed: Collection[TableId] = (),
        hurry: bool = False,
    ) -> frozenset[str]:
        """The requests among these that are due; of several for a table one stays. `hurry`: a run is to end.

        Nothing else is kept back. `copying` are tables whose copy is under way; `renamed` are those that the batch
        renames, by the names before it, under which no later batch finds them.
        """
        waiting: dict[str, str] = {}
        for name in sorted(names):
            if name.startswith(_PREFIX):
                waiting[name.removeprefix(_PREFIX)[:16]] = name
        if not waiting:
            return frozenset(names)
        others = {name for name in names if not name.startswith(_PREFIX)}
        self._requests.remove(set(names) - others - set(waiting.values()))
        busy, last = {_name(table) for table in copying}, set(map(_name, renamed))
        now = self._clock()
        due = {
            name
            for table, name in waiting.items()
            if table in last
            or (table not in busy and (hurry or now - self._begun.get(table, -self._interval_s) >= self._interval_s))
        }
        return frozenset(others | due)

    def note_begun(self, names: Collection[str]) -> None:
        """Copies have begun that these requests asked for."""
        now = self._clock()
        self._begun |= {name.removeprefix(_PREFIX)[:16]: now for name in names if name.startswith(_PREFIX)}


class Cascading:
    """Knows what the tasks look for. Stream reader process."""

    def __init__(
        self, options: SnapshotOptions, store: Store, streams: Streams, captures: Callable[[TableId], bool]
    ) -> None:
        self._options, self._store, self._streams, self._captures = options, store, streams, captures
        self._looked_at: tuple[str, int] | None = None
        self._now: Parents = {}
        self._until: LogPosition | None = None

    def refresh(self, start: MySqlOffset, end: MySqlOffset) -> None:
        """Before a batch: ask the server again, when the schema history has other entries than at the last time.

        A server that is away is waited for, as rows of the batch may be those that are looked for: only a run that is
        to stop does without. Raises SourceError, StateError.
        """
        if self._options.cascades != "copy":
            return
        if self._until is not None and not start.moved_to(end) and start.position >= self._until:
            write_targets(self._store, self._now)
            self._until = None
        if (end.server, end.schemas) == self._looked_at:
            return
        retry = self._streams.retry
        try:
            self._now, until = retry.call(self._read_parents, "asking for foreign keys")
        except SourceUnavailable:
            if retry.stopping():
                return
            raise
        write_targets(self._store, united(read_targets(self._store), self._now))
        self._looked_at, self._until = (end.server, end.schemas), until

    def _read_parents(self) -> tuple[Parents, LogPosition]:
        """The present targets, and the end of the server's log. Raises SourceUnavailable at once."""
        with self._streams.session(patient=False) as session:
            tables = [table for table in table_ids(session) if self._captures(table)]
            found = parents_of(unlogged_links(session, server_info(session), tables), tables)
            file, position, _ = end_of_log(session)
        return found, LogPosition(file, position)
