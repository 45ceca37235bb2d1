"""The table log of a pipeline: schemas in the source, after the rules and in the sink, and states of tables, by batch.

    <state>/tables.jsonl   one entry per batch that changed something, with the changes:

    {"batch": 41,
     "source": {"shop.orders": {"columns": [...], "primary_key": ["id"]}, "shop.gone": null},
     "rules": {"shop.orders": {"columns": [...]}},
     "sink": {"ods.orders": {"columns": [...]}},
     "pairs": [["shop.orders", "ods.orders", {"state": "shadow", "since": 41, "why": "cdc resync", "by": "user"}]],
     "sinks": {"ods.all": {"merged": true}},
     "rule_texts": {"shop.orders": {"total": "price * qty"}},
     "routes": {"rules": [], "first_match": false},
     "operations": [["rename.table", "ods.orders"]], "digest": "sha256 of the operations",
     "renames": [["ods.orders", "ods.sales"]]}

An entry is written before the sink applies anything and before the first task of its batch. The decision on the batch
has the number of valid entries. A repeated batch appends another entry, and the last entry of a batch is the valid one;
those of earlier tries have the operations that these have applied. docs/state.md has the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId, TableSchema
from cdc.schema_json import table_to_json
from cdc.state.store import RESTORE, Store
from cdc.tables.entry import Json, Replay, TableViews, Try, delta, sink_of, try_of

FILE, KIND = "tables.jsonl", "log of tables"
ANY_BATCH = 1 << 62
"""A number after every batch, including the undecided one."""


class TableLog:
    """The table log, written by the driver and read by every process. Picklable, with a cache; not thread-safe.

    All methods raise StateError for a log that is damaged or incomplete.
    """

    def __init__(self, store: Store) -> None:
        self._log = store.log(FILE, KIND)
        self._where = store.where(FILE)
        self._forget()

    def _forget(self) -> None:
        self._generation, self._read, self._batch = 0, 0, -1
        self._replay = Replay()

    def __getstate__(self) -> dict[str, Any]:
        return {"_log": self._log, "_where": self._where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        """The number of entries, of decided batches and the current one."""
        return len(self._log)

    def begin(self, batch: int, entries: int) -> None:
        """Prepare for the first batch of a run; the first `entries` are of decided batches. Driver; repeatable.

        Entries of earlier tries of this batch are kept; those of later batches are removed.
        """
        before = self._log.items(0, entries)
        if before and before[-1]["batch"] >= batch:
            raise self._damaged_error(f"entry {entries - 1} is of batch {before[-1]['batch']}, which is not decided")
        undecided = self._log.items(entries)
        if not before and undecided and undecided[0]["batch"] < batch:
            hint = "restore the state directory as a whole, or start over with another --state-dir"
            raise StateError(f"there is no decision on batch {batch - 1}", where=self._where, hint=hint)
        tries = next((index for index, entry in enumerate(undecided) if entry["batch"] != batch), len(undecided))
        self._log.truncate(entries + tries)
        self._forget()

    def at(self, batch: int) -> TableViews:
        """The tables after the schema changes of a batch. Driver and executors; fast for ascending batches."""
        entries = self._log.items(self._read)
        if self._log.generation != self._generation or batch < self._batch:
            self._forget()
            self._generation, entries = self._log.generation, self._log.items()
        for entry in entries:
            if self._number(entry) > batch:
                break
            self._apply(entry)
        self._batch = batch
        return self._replay.views()

    def tries(self, batch: int) -> Sequence[Try]:
        """The tries of a batch so far, in order. Driver."""
        found: list[Try] = []
        for entry in reversed(self._log.items()):
            if self._number(entry) != batch:
                break
            found.append(self._read_as(try_of, entry))
        return found[::-1]

    def write(self, batch: int, after: TableViews, attempt: Try | None = None) -> int:
        """Write the tables after a batch and its operations (`attempt`); return the number of entries.

        Driver, before the operations are applied and before the batch's tasks. Repeatable: the last entry of a batch is
        valid.
        """
        entry: dict[str, Any] = {"batch": batch, **delta(self.at(batch - 1), after)}
        if attempt is not None and attempt.operations:
            operations = [[name, table_to_json(table)] for name, table in attempt.operations]
            entry |= {"operations": operations, "digest": attempt.digest}
            renames = [[table_to_json(table) for table in pair] for pair in attempt.renames]
            entry |= {"renames": renames} if renames else {}
        last = self._log.items()[-1:]
        if last and self._number(last[0]) == batch:
            return len(self._log) if last[0] == json.loads(json.dumps(entry)) else self._log.append(entry)
        return self._log.append(entry) if len(entry) > 1 else len(self._log)

    def sink_tables(self) -> Iterator[tuple[int, Mapping[TableId, TableSchema | None]]]:
        """Yield each batch with the sink tables whose schema it changed, None for removed ones."""
        items = self._log.items()
        for index, entry in enumerate(items):
            batch = self._number(entry)
            if index + 1 == len(items) or self._number(items[index + 1]) != batch:
                yield batch, self._read_as(sink_of, entry)

    def _apply(self, entry: Json) -> None:
        self._read_as(self._replay.apply, entry)
        self._read += 1

    def _number(self, entry: Json) -> int:
        number = entry.get("batch")
        if not isinstance(number, int):
            raise self._damaged_error("an entry has no batch")
        return number

    def _read_as(self, read: Callable[[Json], Any], entry: Json) -> Any:
        try:
            return read(entry)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._damaged_error(f"the entry of batch {entry['batch']} cannot be read: {error!r}") from error

    def _damaged_error(self, reason: str) -> StateError:
        hint = f"docs/state.md says how to repair it; or {RESTORE}"
        return StateError(f"the {KIND} is damaged: {reason}", where=self._where, hint=hint)
