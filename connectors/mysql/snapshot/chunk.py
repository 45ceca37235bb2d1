"""Entries of the chunk plan, as frozen values: which tables are snapshotted, and in which chunks.

Entries are listed in the order in which batches take them; an entry's number is its index in the plan:

    {"kind": "begin", "table": {"database": "shop", "table": "orders"}, "why": "initial", "keys_certain": false, ...}
    {"kind": "chunk", "table": {...}, "columns": ["id"], "collations": [null], "lower": [100], "upper": [200], ...}
    {"kind": "end", "table": {...}, "why": "truncated"}
    {"kind": "rename", "table": {...}, "new_table": {...}}
    {"kind": "lost"}

A value of a bound is an integer, text (also decimals, dates and times, as the server writes them) or bytes (`{"hex":
"00ff"}` in JSON).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from cdc.schema import TableId


def _value_to_json(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _value_from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


Bound: TypeAlias = tuple[Annotated[Any, PlainSerializer(_value_to_json), BeforeValidator(_value_from_json)], ...]
"""One value per split column."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Start of a table's snapshot; voids an earlier one that has not ended.

    Attributes:
        request: name of the request that caused it, else empty.
        reason: for the user, why the table is re-snapshotted; empty for the first snapshot.
        keys_certain: the log shows which keys exist.
    """

    table: TableId
    why: Literal["initial", "new", "resync", "restart", "uncertain"]
    request: str = ""
    reason: str = ""
    keys_certain: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a table: rows whose key is above `lower` and not above `upper`, in the server's own comparison.

    Attributes:
        number: index in the plan.
        columns: the split columns; empty when the table is one chunk.
        lower, upper: exclusive and inclusive; None is unbounded. NULL keys belong to the first chunk.
        note: position of the server's log when the chunk was planned: `file`, `position`, `gtids`, `at_s` (by the
            server's clock). Everything before it was committed before the chunk is read.
        collations: of the split columns, None for those without; used to compare bounds.
        last: no later chunk of its table follows.
        rows: estimated rows of the chunk. `table_rows`: the same for the table.
        replaces: number of an unreadable chunk that this one replaces.
    """

    number: int
    table: TableId
    columns: tuple[str, ...] = ()
    lower: Bound | None = None
    upper: Bound | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    collations: tuple[str | None, ...] = ()
    last: bool = False
    rows: int = 0
    table_rows: int = 0
    replaces: int | None = None

    def replacement(self, number: int, table: TableId) -> Chunk:
        """Return a replacement for this chunk, under its table's current name."""
        return replace(self, number=number, table=table, note={}, replaces=self.number)

    def not_read(self, least: int) -> Watermark:
        """Return the watermark of a chunk that could not be read before sequence `least`."""
        return Watermark(self.number, False, least, self.note.get("file", ""), self.note.get("position", 0), 0)


@dataclass(frozen=True, slots=True)
class TableEnd:
    """End of a table's snapshot.

    `why` is DONE when all of it is read and the log has reached the position of the last chunk read; LEFT when the
    table is no longer captured; otherwise the table is deleted, or the log holds all of its rows from there on.
    """

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class Rename:
    """A rename of the table."""

    table: TableId
    new_table: TableId


@dataclass(frozen=True, slots=True)
class LogLost:
    """The log between this batch's two offsets is lost and not read; all tables are re-snapshotted."""


DONE, LEFT = "done", "left"

Entry = Begin | Chunk | TableEnd | Rename | LogLost


_KINDS = {"begin": Begin, "chunk": Chunk, "end": TableEnd, "rename": Rename, "lost": LogLost}
_ADAPTERS: dict[str, TypeAdapter[Entry]] = {kind: TypeAdapter(of) for kind, of in _KINDS.items()}


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Convert an entry to a JSON object."""
    kind = next(kind for kind, of in _KINDS.items() if isinstance(entry, of))
    return {"kind": kind, **_ADAPTERS[kind].dump_python(entry, mode="json")}


def entry_from_json(fields: Mapping[str, Any]) -> Entry:
    """Read the entry that `entry_to_json` wrote. Raises ValueError or KeyError for anything else."""
    return _ADAPTERS[fields["kind"]].validate_python(fields)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The result of reading a chunk.

    Attributes:
        number: the chunk's number.
        done: its rows are in the batch. False: the log after the batch alters its table, so it must be read again
            later.
        sequence: of the position at which the rows are the table's; if not done, of the position where the table was
            found altered.
        file, position: the same as the server names it.
        rows: rows read.
    """

    number: int
    done: bool
    sequence: int
    file: str
    position: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; `Watermark(**fields)` reads it back."""
        return asdict(self)
