"""The history of topics and tables, in the order in which it became known: partitions, schemas, emptied tables.

Entries are only appended. An offset contains the number of entries that count for it, so the schemas of a batch are the
same whenever, and in whichever process, they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc.evolution.diff import Hints, Table, diff
from cdc.schema import RenameTable, SchemaChange, TableId, TableSchema, TruncateTable
from cdc.schema_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from cdc.state.store import Store
from connectors.kafka.formats.added import Added, as_value
from connectors.kafka.formats.ddl import AlteredColumns, Change

Entry = dict[str, Any]


def partition_entry(name: str) -> Entry:
    """The entry for a partition that has been found; its number is that of the partitions found before.

    A partition whose topic was recreated is found again, so that the sequence of its messages keeps ascending.
    """
    return {"partition": name}


def schema_entry(table: TableId, schema: TableSchema, topic: str, fills: Mapping[str, str] | None = None) -> Entry:
    """The entry for a table that has this schema from now on, and rows in this topic; `fills` as in `Hints`."""
    entry = {"table": table_to_json(table), "schema": schema_to_json(schema), "topic": topic}
    return {**entry, "fills": dict(fills)} if fills else entry


def statement_entries(change: Change, known: HistoryState, partition: str, offset: int) -> list[Entry]:
    """The entries that carry out a step of the statement at this position.

    It deletes rows, drops or renames a table or columns, or adds columns in which existing rows have a value.
    """
    at = {"at": [partition, offset]}
    if isinstance(change, TruncateTable):
        return [{"truncate": table_to_json(change.table), **at}]
    if isinstance(change, RenameTable):
        return [{"rename": [table_to_json(change.table), table_to_json(change.new_table)], **at}]
    if not isinstance(change, AlteredColumns):
        return [{"table": table_to_json(change.table), "schema": None, **at}]
    if change.table not in known.schemas:
        return []
    names = known.columns(change.table)
    moves = change.renames(names)
    fills = {item.name: [item.kind, item.fill] for item in change.fills(names)}
    found = {"columns": moves, "filled": fills}
    return [{table: [table_to_json(change.table), columns], **at} for table, columns in found.items() if columns]


def early_entry(table: TableId, columns: Sequence[Added], partition: str, offset: int) -> Entry:
    """The entry for columns that the statement at this position adds to a table of which no row was read before.

    Later rows may still be from before the statement; then their values in these columns are not known.
    """
    fills = {item.name: "unknown" if item.fill is None else item.fill for item in columns}
    return {"early": [table_to_json(table), fills], "at": [partition, offset]}


def is_statement(entry: Entry) -> bool:
    """Whether the entry is of a statement, made by `statement_entries` or `early_entry`."""
    return "at" in entry


def carries_out(entry: Entry) -> bool:
    """Whether the entry carries a statement out, after which no row from before the statement may come."""
    return is_statement(entry) and "early" not in entry


class HistoryState:
    """The state after the first `count` entries.

    Attributes:
        topics: by table, the topics that have its rows.
        carried: partition and offset of the statements that were carried out.
        filled: by table and name, for columns that a statement added and no row had yet: their type's name in the
            statement, and the value that earlier rows have in them.
        early: by table and name, the default of columns that a statement added before any row of the table was read.
    """

    def __init__(self) -> None:
        self.count = 0
        self.partitions: dict[str, int] = {}
        self.names: list[str] = []
        self.schemas: dict[TableId, TableSchema] = {}
        self.topics: dict[TableId, set[str]] = {}
        self.carried: set[tuple[str, int]] = set()
        self.filled: dict[TableId, dict[str, tuple[str, str]]] = {}
        self.early: dict[TableId, dict[str, str]] = {}

    def apply(self, entry: Entry) -> list[SchemaChange]:
        """Apply one more entry; return the schema changes that it means."""
        self.count += 1
        if is_statement(entry):
            partition, offset = entry["at"]
            self.carried.add((partition, offset))
        if "partition" in entry:
            name = entry["partition"]
            if name in self.partitions:  # its topic was recreated, so the same offsets are other messages
                self.carried = {at for at in self.carried if at[0] != name}
            self.partitions[name] = len(self.names)
            self.names.append(name)
            return []
        if "filled" in entry:
            found, columns = entry["filled"]
            self.filled.setdefault(table_from_json(found), {}).update(
                {name: (kind, fill) for name, (kind, fill) in columns.items()}
            )
            return []
        if "early" in entry:
            found, defaults = entry["early"]
            self.early.setdefault(table_from_json(found), {}).update(defaults)
            return []
        if "truncate" in entry:
            return [TruncateTable(table_from_json(entry["truncate"]))]
        if "rename" in entry:
            table, new_table = map(table_from_json, entry["rename"])
            if table not in self.schemas:
                return []
            self.schemas[new_table] = self.schemas.pop(table)
            self.topics[new_table] = self.topics.pop(table, set())
            self.filled[new_table] = self.filled.pop(table, {})
            self.early[new_table] = self.early.pop(table, {})
            return [RenameTable(table, new_table)]
        if "columns" in entry:
            found, moves = entry["columns"]
            return self._take_columns(table_from_json(found), moves)
        return self._take_schema(table_from_json(entry["table"]), entry)

    def table_of(self, topic: str) -> TableId | None:
        """The table whose rows a topic has; None unless it is exactly one."""
        found = [table for table, topics in self.topics.items() if topic in topics]
        return found[0] if len(found) == 1 else None

    def columns(self, table: TableId) -> tuple[str, ...]:
        """The columns of a known table, including those that no row had yet."""
        return (*self.schemas[table].names, *self.filled.get(table, ()))

    def fills(self, table: TableId, schema: TableSchema) -> dict[str, str | None]:
        """The values of existing rows in columns that this schema adds; None where they are not certain."""
        waiting = {name.casefold(): found for name, found in self.filled.get(table, {}).items()}
        return {
            column.name: as_value(column.type, *waiting[column.name.casefold()])
            for column in schema.columns
            if column.name.casefold() in waiting
        }

    def entry(self, table: TableId, schema: TableSchema, topic: str) -> Entry:
        """The entry that gives a table this schema, with the values of existing rows in new columns."""
        fills = {name: text for name, text in self.fills(table, schema).items() if text is not None}
        return schema_entry(table, schema, topic, fills)

    def not_filled(self, table: TableId, schema: TableSchema) -> dict[str, str]:
        """By name, why existing rows get NULL in columns that this schema adds."""
        old = self.schemas.get(table)
        if old is None:
            return {}
        values = self.filled.get(table, {})
        found = {
            name: f"its default {values.get(name, ('', ''))[1]!r} is not certain as {schema.column(name).type}, the "
            "type of the messages"
            for name, text in self.fills(table, schema).items()
            if text is None
        }
        names = {name.casefold() for name in (*old.names, *values)}
        early = {name.casefold(): text for name, text in self.early.get(table, {}).items()}
        for name in schema.names:
            if name.casefold() in early.keys() - names:
                default = early[name.casefold()]
                found[name] = f"its default, {default!r}, came before any row of the table was read"
        return found

    def _take_columns(self, table: TableId, moves: Mapping[str, str | None]) -> list[SchemaChange]:
        """Rename and drop columns, all at the same time."""
        schema = self.schemas[table]
        if table in self.filled:
            renamed = ((moves.get(name, name), item) for name, item in self.filled[table].items())
            self.filled[table] = {name: item for name, item in renamed if name is not None}
        origins = {new: name for name in schema.names if (new := moves.get(name, name)) is not None}
        columns = tuple(replace(schema.column(name), name=new) for new, name in origins.items())
        key = tuple(moves.get(part) or part for part in schema.primary_key)
        after = self.schemas[table] = replace(schema, columns=columns, primary_key=key)
        return diff(Table(table, schema), Table(table, after), Hints(origins=origins))

    def _take_schema(self, table: TableId, entry: Entry) -> list[SchemaChange]:
        text, topic = entry["schema"], entry.get("topic")
        old = self.schemas.pop(table, None)
        new = None if text is None else schema_from_json(text)
        if new is None:
            self.topics.pop(table, None)
            self.filled.pop(table, None)
            self.early.pop(table, None)
        else:
            names = {name.casefold() for name in new.names}
            early = {name: text for name, text in self.early.pop(table, {}).items() if name.casefold() not in names}
            self.early.update({table: early} if early else {})
            remaining = {
                name: item for name, item in self.filled.pop(table, {}).items() if name.casefold() not in names
            }
            self.filled.update({table: remaining} if remaining else {})
            self.schemas[table] = new
            if topic is not None:
                self.topics.setdefault(table, set()).add(topic)
        before, after = (None if item is None else Table(table, item) for item in (old, new))
        return diff(before, after, Hints(fills=entry.get("fills", {})))


class TopicHistory:
    """The entries in the state directory. The stream reader writes them, any process reads them. Cheap to make."""

    def __init__(self, store: Store) -> None:
        self._log = store.log("schemas.jsonl", "schema history of topics")
        self._known, self._generation = HistoryState(), 0

    def at(self, count: int) -> HistoryState:
        """The state after the first `count` entries; do not modify it. Raises StateError when there are fewer."""
        entries = self._log.items(0, count)
        if self._known.count > count or self._log.generation != self._generation:
            self._known, self._generation = HistoryState(), self._log.generation
        for entry in entries[self._known.count :]:
            self._known.apply(entry)
        return self._known

    def changes(self, first: int, last: int) -> list[SchemaChange]:
        """The schema changes of the entries from number `first` to before `last`."""
        known, found = HistoryState(), list[SchemaChange]()
        for number, entry in enumerate(self._log.items(0, last)):
            changes = known.apply(entry)
            if number >= first:
                found += changes
        return found

    def names(self) -> Sequence[str]:
        """The names of all partitions found so far, by number."""
        return self.at(len(self._log)).names

    def truncate(self, count: int) -> None:
        """Remove the entries that an earlier run had added without planning a batch with them. Stream reader."""
        if len(self._log) > count:
            self._log.truncate(count)

    def append(self, entries: Sequence[Entry]) -> int:
        """Append entries, and return how many there are then."""
        return self._log.append(*entries)

    def __len__(self) -> int:
        return len(self._log)
