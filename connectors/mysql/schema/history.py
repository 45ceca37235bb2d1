"""The schema history: every definition and schema change of a pipeline's source, in log order, in one file.

`schemas.jsonl` in the connector's state folder is JSON lines. The first line has the format and a generation, which
increases with each truncation, so that readers notice. Every other line is an entry:

    {"entry": 0, "at": {"file": "binlog.000002", "pos": 4711, "begin": 4600, "ms": 1795230361559, "server_id": 1,
                        "gtid": "..."}, "sql": "ALTER TABLE ...",
     "changes": [... as in cdc.schema_json ...], "tables": [["shop", "orders", {"columns": [...], ...} or null], ...],
     "databases": {"shop": "utf8mb4"}, "marks": [["shop", "old", "left"], ...],
     "uncertain": [["shop", "orders", "column n: ...", true], ...],
     "links": [[["shop", "orders"], ["shop", "lines"], ["id"], "CASCADE", ""], ...]}

An offset says how many entries count; later ones were written by a run that crashed and are cut off. One process
writes, others read concurrently. A torn last line is left by a crash: readers ignore it, the writer removes it. Every
append is on disk (fsync) when it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.errors import StateError
from cdc.evolution.apply import tables_after
from cdc.schema import SchemaChange, SourceStatement, TableId
from cdc.schema_json import change_from_json, change_to_json
from cdc.state.store import RESTORE, Store
from connectors.mysql.ddl.catalog import DdlResult, TableDefinitions
from connectors.mysql.ddl.delta import Delta, delta_from_json, delta_to_json
from connectors.mysql.table import MySqlTable

FILE_NAME = "schemas.jsonl"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """One step of the history.

    Attributes:
        at: position in the log: `file`, and `pos` after the statement; for a logged statement also where it begins, and
            when and by which server and transaction it was written. Empty for definitions read at the start.
        changes: for the sink, of captured tables.
        delta: definitions and names that were added or removed.
        sql: the statement; empty for definitions read from the server.
    """

    at: Mapping[str, Any]
    changes: tuple[SchemaChange, ...] = ()
    delta: Delta = field(default_factory=Delta)
    sql: str = ""

    @classmethod
    def of(cls, result: DdlResult, at: Mapping[str, Any], sql: str = "") -> SchemaEntry:
        """Create the entry for the result of a statement."""
        return cls(dict(at), result.changes, result.delta, sql)

    @property
    def statement(self) -> SourceStatement | None:
        """The logged statement; None for an entry with another cause."""
        at = self.at
        if "begin" not in at:
            return None
        return SourceStatement(
            self.sql, at["file"], at["begin"], at["pos"], at["ms"], at["server_id"], at.get("gtid", "")
        )

    @classmethod
    def of_gone_tables(
        cls, at: Mapping[str, Any], tables: Iterable[TableId], changes: tuple[SchemaChange, ...]
    ) -> SchemaEntry:
        """Create the entry for tables that disappeared without a statement."""
        return cls(dict(at), changes, Delta(dict.fromkeys(tables)), "-- gone while the log was not read")


class SchemaHistory:
    """The history in a store. Cheap to create and to pickle; thread-safe.

    `append` and `truncate` are for the single writer (the stream reader process), everything else may run anywhere. All
    raise StateError.
    """

    def __init__(self, store: Store) -> None:
        self._log = store.log(FILE_NAME, "schema history", {"schema_history": _FORMAT})
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._start_over(0)

    def _start_over(self, generation: int) -> None:
        self._generation = generation
        self._entries: list[SchemaEntry] = []
        self._tables: dict[TableId, MySqlTable] = {}
        self._tables_count = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"_log": self._log}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def count(self) -> int:
        """Number of complete entries."""
        with self._lock:
            self._refresh()
            return len(self._entries)

    def append(self, *entries: SchemaEntry) -> int:
        """Write entries after the last complete one, to disk; returns the new count.

        Not repeatable: check the count first.
        """
        with self._lock:
            first = self.count()
            self._log.append(*(_fields(first + number, entry) for number, entry in enumerate(entries)))
            return self.count()

    def truncate(self, count: int) -> None:
        """Remove everything after the first `count` entries. Repeatable. Raises StateError when there are fewer."""
        self._log.truncate(count)

    def entries(self, first: int, last: int) -> list[SchemaEntry]:
        """Return entries `first` (counted from 0) up to, not including, `last`.

        Raises StateError when there are fewer.
        """
        with self._lock:
            self._log.items(first, last)
            self._refresh()
            return self._entries[first:last]

    def changes(self, first: int, last: int) -> list[SchemaChange]:
        """Return the schema changes of entries `first` up to, not including, `last`, with their statements."""
        entries = self.entries(first, last)
        return [replace(change, statement=entry.statement) for entry in entries for change in entry.changes]

    def followed(self, count: int) -> set[TableId]:
        """Return the tables that the first `count` entries create in the sink: captured then, or earlier."""
        return tables_after((), self.changes(0, count))

    def tables(self, count: int) -> dict[TableId, MySqlTable]:
        """Return all definitions after the first `count` entries, also of tables not captured.

        Fast for a growing `count`.
        """
        with self._lock:
            entries = self.entries(0, count)
            if count < self._tables_count:
                self._tables, self._tables_count = {}, 0
            for entry in entries[self._tables_count :]:
                for table, definition in entry.delta.tables.items():
                    if definition is None:
                        self._tables.pop(table, None)
                    else:
                        self._tables[table] = definition
            self._tables_count = count
            return dict(self._tables)

    def fill(self, catalog: TableDefinitions, count: int) -> TableDefinitions:
        """Fill a new catalog with the first `count` entries."""
        for entry in self.entries(0, count):
            catalog.update(entry.delta)
        return catalog

    def _refresh(self) -> None:
        """Read new complete lines; all of them when the history was truncated."""
        known = len(self._log)
        if self._log.generation != self._generation:
            self._start_over(self._log.generation)
        for number, fields in enumerate(self._log.items(len(self._entries), known), start=len(self._entries)):
            self._entries.append(self._entry(number, fields))

    def _entry(self, number: int, fields: dict[str, Any]) -> SchemaEntry:
        try:
            if fields["entry"] != number:
                raise ValueError(f"it is numbered {fields['entry']}")
            changes = tuple(change_from_json(change) for change in fields["changes"])
            return SchemaEntry(fields["at"], changes, delta_from_json(fields), fields.get("sql", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"the schema history is damaged: entry {number} cannot be read: {error}",
                where=str(self._log.path),
                hint=RESTORE,
            ) from error


def _fields(number: int, entry: SchemaEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {"entry": number, "at": dict(entry.at)}
    if entry.sql:
        fields["sql"] = entry.sql
    fields["changes"] = [change_to_json(change) for change in entry.changes]
    return fields | delta_to_json(entry.delta)
