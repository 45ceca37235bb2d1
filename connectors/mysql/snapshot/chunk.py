"""Entries of the chunk plan, as frozen values: which tables are snapshotted, and in which chunks.

Entries of the plan, in the order in which batches take them; an entry's number is its place in the plan:

    {"kind": "begin", "table": ["shop", "orders"], "why": "initial", "request": "", "reason": "", "keys_certain": false}
    {"kind": "chunk", "table": [...], "columns": ["id"], "collations": [null], "lower": [100], "upper": [200], ...}
    {"kind": "end", "table": [...], "why": "truncated"}
    {"kind": "rename", "table": [...], "new": [...]}
    {"kind": "lost"}

A value of a bound is an integer, text (also decimals, dates and times, as the server writes them) or bytes
(`{"hex": "00ff"}` in JSON).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from cdc.schema import TableId

Bound: TypeAlias = tuple[Any, ...]
"""One value per split column."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a table's snapshot: what an earlier one that has not ended has read does not count.

    Attributes:
        request: the name of the request that asked for it, else empty.
        reason: for the user, why the table is snapshotted again; empty for the first time.
        keys_certain: the log tells which keys there are.
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
        number: its place in the plan.
        columns: the split columns; empty when the table is one chunk.
        lower, upper: exclusive and inclusive; None has no bound on that side. NULL keys belong to the first chunk.
        note: where the server's log stood when the chunk was planned: `file`, `position`, `gtids`, `at_ms` (since the
            epoch). What is before it was committed before the chunk is read.
        collations: of the split columns, None for those without; bounds are compared with these.
        last: no chunk of its table comes after it.
        rows: estimated. `table_rows`: the same for the table.
        replaces: number of the chunk whose place it takes, as that one could not be read.
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

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back to an equal chunk."""
        return {
            "kind": "chunk",
            **asdict(self),
            "table": [self.table.database, self.table.table],
            "columns": list(self.columns),
            "lower": _bound_to_json(self.lower),
            "upper": _bound_to_json(self.upper),
            "collations": list(self.collations),
        }

    def replacement(self, number: int, table: TableId) -> Chunk:
        """The chunk that takes its place, under its table's present name."""
        return replace(self, number=number, table=table, note={}, replaces=self.number)

    def not_read(self, least: int) -> Watermark:
        """The watermark that has the chunk read behind `least`."""
        return Watermark(self.number, False, least, self.note.get("file", ""), self.note.get("position", 0), 0)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Chunk:
        """The chunk that `to_json` wrote."""
        values = {
            **fields,
            "table": TableId(*fields["table"]),
            "columns": tuple(fields["columns"]),
            "lower": _bound_from_json(fields["lower"]),
            "upper": _bound_from_json(fields["upper"]),
            "collations": tuple(fields["collations"]),
        }
        del values["kind"]
        return cls(**values)


@dataclass(frozen=True, slots=True)
class TableEnd:
    """The snapshot of the table ends.

    `why` is DONE where all of it is read, and the log has come to where the last chunk was read; LEFT where the table
    is not captured any more; else the table is gone, or the log has all of its rows from there.
    """

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class Rename:
    """The table goes on under another name."""

    table: TableId
    new_table: TableId


@dataclass(frozen=True, slots=True)
class LogLost:
    """The log between this batch's two offsets is gone and is not read; all tables are snapshotted again."""


DONE, LEFT = "done", "left"

Entry = Begin | Chunk | TableEnd | Rename | LogLost


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as a JSON object."""
    match entry:
        case Begin(table=table):
            fields = {name: value for name, value in asdict(entry).items() if name != "table"}
            return {"kind": "begin", "table": [table.database, table.table], **fields}
        case Chunk():
            return entry.to_json()
        case TableEnd(table, why):
            return {"kind": "end", "table": [table.database, table.table], "why": why}
        case Rename(table, new):
            return {"kind": "rename", "table": [table.database, table.table], "new": [new.database, new.table]}
        case LogLost():
            return {"kind": "lost"}


def entry_from_json(fields: Mapping[str, Any]) -> Entry:
    """The entry that `entry_to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    kind = fields["kind"]
    if kind == "chunk":
        return Chunk.from_json(fields)
    if kind == "lost":
        return LogLost()
    table = TableId(*fields["table"])
    if kind == "begin":
        return Begin(table, **{name: value for name, value in fields.items() if name not in ("kind", "table")})
    if kind == "end":
        return TableEnd(table, fields["why"])
    if kind == "rename":
        return Rename(table, TableId(*fields["new"]))
    raise ValueError(f"an entry of kind {kind!r} is not known")


@dataclass(frozen=True, slots=True)
class Watermark:
    """The result of reading a chunk.

    Attributes:
        number: the chunk's.
        done: its rows are in the batch. False: its table was altered in the log behind the batch, read it again later.
        sequence: of the position at which the rows are the table's; where the table was found altered when not done.
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
        """A JSON object; `Watermark(**fields)` reads it back."""
        return asdict(self)


def _bound_to_json(bound: Bound | None) -> list[Any] | None:
    if bound is None:
        return None
    return [{"hex": value.hex()} if isinstance(value, bytes) else value for value in bound]


def _bound_from_json(values: list[Any] | None) -> Bound | None:
    if values is None:
        return None
    return tuple(bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in values)
