"""The schemas of the sink tables of one pipeline, as the engine knows them: batch by batch, on disk.

    <state>/sink_schemas.jsonl   one entry per batch with schema changes: its number, and the tables it changed; with
                                 what is new of the marks on them, and of the routes

The schemas of a batch are all entries up to its number. A batch's entry is written before its first task starts, so
that tasks find it, and its decision says how many entries hold behind it: what a batch without a decision has left is
cut when it runs again, which therefore starts from the same schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import EngineError, StateError
from cdc.evolution.apply import apply_changes
from cdc.evolution.merge import same_key
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.schema_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from cdc.state.store import RESTORE, Store

Schemas = Mapping[TableId, TableSchema]

Pair = tuple[TableId, TableId]
"""A source table and one of its sink tables."""

FILE, KIND = "sink_schemas.jsonl", "log of sink schemas"


class Part(StrEnum):
    """How far a source table is in a copy of a sink table (`cdc.flow.together`)."""

    WANTED = "wanted"
    """The source has been asked to copy it; what comes of an earlier copy of it does not count."""
    BEGUN = "begun"
    """Its rows come twice: for the table, and for the copy."""
    WHOLE = "whole"
    """Its rows come once, and go to both."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of sink tables besides their schemas.

    Attributes:
        merged: those that several source tables go to, or went to.
        over: whose copies are written over the rows that are there.
        left: rows of the source table are in the sink table from an earlier time, and nobody has followed them since.
        together: what each source table has to do with the copy beside its sink table, where one is under way.
        waiting: rows and changes of the source table do not go to the sink table, until a copy that was asked for
            begins with all of them.
        routes: what led rows to their tables, as `RouteTable.to_json` says; None where nobody has said it.
        paused: those of `waiting` whose source table is paused: no copy brings them back before it is resumed.
        resumed: those of `waiting` that were paused: the next copy replaces the rows that are there, or is written
            over them.
    """

    merged: frozenset[TableId] = frozenset()
    over: frozenset[Pair] = frozenset()
    waiting: frozenset[Pair] = frozenset()
    left: frozenset[Pair] = frozenset()
    together: Mapping[Pair, Part] = field(default_factory=dict)
    routes: Mapping[str, Any] | None = None
    paused: frozenset[Pair] = frozenset()
    resumed: frozenset[Pair] = frozenset()

    @property
    def left_out(self) -> frozenset[TableId]:
        """Source tables whose rows are not wanted at all."""
        return frozenset(source for source, _ in self.paused | self.resumed)


class SinkSchemas:
    """Written by the driver, read by the tasks. Picklable; keeps what it has read."""

    def __init__(self, store: Store, file: str = FILE, what: str = KIND) -> None:
        self._log = store.log(file, what)
        self._where = store.where(file)
        self._forget()

    def _forget(self) -> None:
        self._generation, self._read, self._batch = 0, 0, -1
        self._known: dict[TableId, TableSchema] = {}
        self._marks = Marks()

    def __getstate__(self) -> dict[str, Any]:
        return {"_log": self._log, "_where": self._where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def begin(self, batch: int, entries: int | None, past: Callable[[], Iterable[SchemaChange]]) -> None:
        """Go back to the schemas that hold before a batch, the first of a run. Driver; repeatable.

        `entries` is what the decision before it says. None when there is none, or one of an older version that did not
        keep schemas: they are then made of `past`, all changes before the batch with the sink's table names.

        Raises StateError when the log lacks entries, EngineError when the changes do not fit each other.
        """
        self._log.truncate(0 if entries is None else entries)
        self._forget()
        if entries is None and (changes := list(past())):
            self.change(batch - 1, changes)

    def change(self, batch: int, changes: Sequence[SchemaChange]) -> int:
        """Take in a batch's changes; how many entries there are then. Driver, before the batch's tasks.

        Raises EngineError when a change does not fit its table; nothing is written then.
        """
        before = self.at(batch)
        if not changes:
            return len(self._log)
        return self.record(batch, apply_changes(before, changes), self._marks)

    def record(self, batch: int, after: Schemas, marks: Marks) -> int:
        """The tables as they are behind a batch's changes, and the marks on them.

        Returns how many entries there are then. Driver, before the batch's tasks.
        """
        before = self.at(batch)
        changed = [table for table in {**before, **after} if before.get(table) != after.get(table)]
        entry: dict[str, Any] = {
            "batch": batch,
            "tables": [[table_to_json(table), _to_json(after.get(table))] for table in changed],
        }
        entry |= _new_marks(self._marks, marks)
        return self._log.append(entry) if changed or len(entry) > len(("batch", "tables")) else len(self._log)

    def marks(self, batch: int) -> Marks:
        """The marks that hold for the rows of a batch. Driver and executors."""
        self.at(batch)
        return self._marks

    def merged(self, batch: int) -> frozenset[TableId]:
        """The sink tables that several source tables go to, or went to. Driver and executors."""
        return self.marks(batch).merged

    def __len__(self) -> int:
        """How many entries there are, of earlier batches and of the one at hand."""
        return len(self._log)

    def at(self, batch: int) -> Schemas:
        """The schemas that the rows of a batch have in the sink, by sink table. Driver and executors."""
        entries = self._log.items(self._read)
        if self._log.generation != self._generation or batch < self._batch:
            self._forget()
            self._generation, entries = self._log.generation, self._log.items()
        for entry in entries:
            if entry["batch"] > batch:
                break
            self._take(entry)
            self._read += 1
        self._batch = batch
        return self._known

    def _take(self, entry: Mapping[str, Any]) -> None:
        try:
            self._marks = _with_new(self._marks, entry)
            for name, schema in entry["tables"]:
                table = table_from_json(name)
                if schema is None:
                    self._known.pop(table, None)
                else:
                    self._known[table] = schema_from_json(schema)
        except (ValueError, LookupError, TypeError) as error:
            raise StateError(f"an entry cannot be read: {error!r}", where=self._where, hint=RESTORE) from error


_PAIRS = ("over", "waiting", "left", "paused", "resumed")


def _new_marks(before: Marks, after: Marks) -> dict[str, Any]:
    """What an entry says of the marks: tables that were merged are merged for ever, of the others it has all."""
    new: dict[str, Any] = {}
    if after.merged != before.merged:
        new["merged"] = [table_to_json(table) for table in sorted(after.merged - before.merged)]
    for name in _PAIRS:
        if getattr(after, name) != getattr(before, name):
            new[name] = _pairs_to_json(getattr(after, name))
    if after.together != before.together:
        pairs = sorted(after.together)
        new["together"] = [[*map(table_to_json, pair), str(after.together[pair])] for pair in pairs]
    if after.routes != before.routes:
        new["routes"] = after.routes
    return new


def _with_new(marks: Marks, entry: Mapping[str, Any]) -> Marks:
    """The marks behind an entry."""
    merged = {table_from_json(name) for name in entry.get("merged", ())}
    return replace(
        marks,
        merged=marks.merged | merged,
        together=_parts_from_json(entry["together"]) if "together" in entry else marks.together,
        routes=entry.get("routes", marks.routes),
        **{name: _pairs_from_json(entry[name]) for name in _PAIRS if name in entry},
    )


def _pairs_to_json(pairs: Collection[Pair]) -> list[list[Any]]:
    return [[table_to_json(table) for table in pair] for pair in sorted(pairs)]


def _pairs_from_json(items: Iterable[Any]) -> frozenset[Pair]:
    return frozenset((table_from_json(source), table_from_json(sink)) for source, sink in items)


def _parts_from_json(items: Iterable[Any]) -> dict[Pair, Part]:
    return {(table_from_json(source), table_from_json(sink)): Part(part) for source, sink, part in items}


def _to_json(schema: TableSchema | None) -> dict[str, Any] | None:
    return None if schema is None else schema_to_json(schema)


def check_columns(block: ChangeBlock, known: TableSchema, *, exact: bool) -> None:
    """Raise EngineError when a routed block has another key than the sink's table, or other columns though `exact`.

    Their order does not count: a column that is moved in the source stays where it is in the sink.
    """
    if known is block.schema or (
        same_key(known, block.schema) and not (exact and {*known.names} != {*block.schema.names})
    ):
        return
    raise EngineError(
        f"rows with the columns {', '.join(block.schema.names)} and the key {block.schema.primary_key} do not fit "
        f"the sink's table, which has {', '.join(known.names)} and the key {known.primary_key}",
        where=str(block.table),
        hint="the source's log and the state directory are of different pipelines, or this is a defect: report it",
    )
