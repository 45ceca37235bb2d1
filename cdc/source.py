"""The source contract: seven methods, and small optional capabilities. Nothing here knows Spark.

A source object is built on the driver from its options and pickled to two other places: the stream reader process (one
per run, plans batches) and the executors (read them). Build it cheaply, open connections lazily, hold no live handle in
a pickled attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.finding import Finding
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.state.store import Store
from cdc.state.waits import Waits

Offset = dict[str, Any]
"""A point in the source's history: a JSON object of strings, integers and booleans. It names data, never time."""


Count = Callable[[str, int], None]
"""Reports a counted, visible reason: something that was changed or left out on purpose. Summed over the run."""

NOTICES = 50
"""Most notices that come with one report of the lag."""

Report = Callable[[dict[str, Any]], None]
"""Tells the source's driver side something about a split, as a JSON object: it comes back in `Learns.decided`."""


class Flag(Protocol):
    """Says yes or no, such as a path of a file that somebody makes."""

    def exists(self) -> bool:
        """Yes or no, now. Cheap."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a connector is told about the run.

    Attributes:
        pipeline: the pipeline's id: stable over restarts, unique per state directory; part of every name in the sink.
        store: what the connector keeps in the state directory; survives restarts, seen by every process.
        stop_file: exists once the run is asked to stop; None when nobody asks.
        metadata: what the sink asks of each row besides the source's `metadata.list`, by name; a source gives what it
            knows of it (`ChangeBlock.metadata`).
    """

    pipeline: str
    store: Store
    stop_file: Flag | None = None
    metadata: tuple[str, ...] = ()

    def stopping(self) -> bool:
        """Whether the run is asked to stop: what waits for a server that is gone then gives up. Any process."""
        return self.stop_file is not None and self.stop_file.exists()

    def waiting(self, text: str) -> None:
        """Say what is waited for, for the status line; the driver has it within a second. Any process."""
        Waits(self.store).note(text)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may hold: soft limits, a single transaction may exceed them."""

    max_bytes: int
    max_rows: int


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a batch that one task reads.

    `payload` is the source's own: a JSON value (objects with text keys, lists, text, integers, booleans, null), small
    (well under 1 MB). It is stored before the batch is read, and what is read again after a crash is read by it.
    `moment_ms` is the batch's own time, milliseconds since the epoch, the same in a replay; `again` says that an
    earlier run may have begun with it. The engine sets both.
    """

    index: int
    payload: Any
    moment_ms: int = 0
    again: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the last planned batch is behind the end of the source's log, as the source knows it.

    Attributes:
        bytes: of the log. Spark tells it once the batch is committed.
        transactions: the same in transactions; None where the source does not count them.
        note: what the source is doing when it is not simply reading: waiting for a server that is gone.
        notices: what it has met and tells once, each a sentence: the last NOTICES of them, oldest first.
        noticed: all of them since the source object was made.
    """

    bytes: int
    note: str = ""
    notices: tuple[str, ...] = ()
    noticed: int = 0
    transactions: int | None = None

    @classmethod
    def telling(cls, told: Sequence[str], bytes: int = 0, note: str = "", transactions: int | None = None) -> Lag:
        """With the end of a list of notices that only grows."""
        return cls(bytes, note, tuple(told[-NOTICES:]), len(told), transactions)


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far the copying of one table is.

    Attributes:
        state: `waiting` (nothing of it is read yet), `copying` or `done`.
        rows: copied. `estimated_rows`: in the table, roughly; never less than `rows`.
        chunks: copied. `planned_chunks`: as far as they are known yet.
        started_s, updated_s: when this run began its first part, and had copied its last one, seconds since the epoch;
            0 before.
        rows_per_s: over the last seconds.
        why: it is copied anew; empty for a table that is copied for the first time.
    """

    table: TableId
    state: str
    rows: int = 0
    estimated_rows: int = 0
    chunks: int = 0
    planned_chunks: int = 0
    started_s: float = 0.0
    updated_s: float = 0.0
    rows_per_s: float = 0.0
    why: str = ""

    @property
    def eta_s(self) -> float | None:
        """Seconds to its end at this rate; None when that cannot be told."""
        if self.state != "copying" or self.rows_per_s <= 0:
            return None
        return (self.estimated_rows - self.rows) / self.rows_per_s


class Source(ABC):
    """Reads a change log as batches: closed ranges of offsets that can be read again and give the same rows.

    These seven methods are what every source has. What only some can do are the capabilities below, each a protocol of
    one method that the engine asks for: a class that has the method has the capability.
    """

    bounded: bool = False
    """True when the log ends by itself (files): a run stops when everything was read."""

    lists_all_tables: bool = False
    """True when `tables` has all tables of a new pipeline but those created later: a pattern must match one."""

    @abstractmethod
    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables with their schemas as of now. Driver; for `cdc plan` and for the run's first log line."""

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a new pipeline starts. Stream reader process; once per state directory (the caller stores it)."""

    @abstractmethod
    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """The end of the next batch after `start`, or `start` itself when nothing came within `wait_s` seconds.

        Stream reader process. The batch ends at a transaction boundary, and every table has one schema in it: schema
        changes of the batch come before all of its rows of that table. `limits` None means no limit.
        """

    @abstractmethod
    def stop_at_current(self) -> None:
        """From now on behave as if nothing came after what the log holds now. Stream reader process, once."""

    @abstractmethod
    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Cut a batch into parts in log order. Stream reader process; once per batch, as the parts are stored.

        After a crash before they were, it is called for the unfinished batch on a fresh object that has not seen
        `latest_offset`, so all it needs is in the offsets or in `Context.store`.
        """

    @abstractmethod
    def schema_changes(self, start: Offset, end: Offset) -> Sequence[SchemaChange]:
        """The schema changes of a batch, in log order. Driver; asked again after a crash, same answer."""

    @abstractmethod
    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """The split's changes in log order. Executor; may be called again after a failure and then gives the same.

        `count` takes what the user has to see: a name such as `invalid-date-to-null shop.orders.shipped`, and how many.
        `report` takes what `Learns.decided` is to be told when these very rows are what the batch will commit.
        """


def past_changes(source: Source, start: Offset, end: Offset) -> Sequence[SchemaChange]:
    """What leads from no tables to those at `end`, where the pipeline began at `start`, many batches before. Driver."""
    return source.past_changes(start, end) if isinstance(source, TellsPast) else source.schema_changes(start, end)


def close(source: Source) -> None:
    """Let a source that holds something open close it."""
    if isinstance(source, Closes):
        source.stop()


@runtime_checkable
class Closes(Protocol):
    """Optional capability: what the source holds open is closed."""

    def stop(self) -> None:
        """Close what is open. Stream reader process, at the end of the run; not guaranteed after a crash.

        In a bounded run it also comes from another thread, while `latest_offset` waits: that then returns at once.
        """


@runtime_checkable
class Warms(Protocol):
    """Optional capability: something big can be loaded before the first batch needs it."""

    def warm(self) -> None:
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""


@runtime_checkable
class Releases(Protocol):
    """Optional capability: the source keeps something until what was read is in the sink."""

    def commit(self, end: Offset) -> None:
        """Everything up to `end` is in the sink and will not be asked for again. Stream reader process."""


@runtime_checkable
class Reaches(Protocol):
    """Optional capability of sources and sinks that tasks connect to, for executors on other machines."""

    def reach(self) -> None:
        """Connect and log in, now or never. Executor, before the first batch. Raises the connector's errors."""


@runtime_checkable
class TellsFirst(Protocol):
    """Optional capability of a bounded source: it knows the tables that its log begins with."""

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """Their schemas at the beginning. Driver, before the first run. Raises SourceError."""


@runtime_checkable
class TellsPast(Protocol):
    """Optional capability: a batch has changes, such as `CreateShadow`, that mean nothing in a row of many batches."""

    def past_changes(self, start: Offset, end: Offset) -> Sequence[SchemaChange]:
        """The changes of the source's tables in many batches, one after the other, without those. Driver."""


@runtime_checkable
class Learns(Protocol):
    """Optional capability: tasks find out what the driver's side of the source has to know."""

    def decided(self, reports: Sequence[dict[str, Any]]) -> None:
        """What the tasks of a batch reported, once its decision is on disk and before the next batch is planned.

        Driver; in the order of splits. Called again with the same reports after a crash, so it has to be idempotent.
        """


@runtime_checkable
class TellsLag(Protocol):
    """Optional capability: the source knows the end of its log, or has notices for the user."""

    def lag(self) -> Lag | None:
        """How far behind the last planned batch is; None when there is nothing to tell yet. Stream reader process."""


@runtime_checkable
class Copies(Protocol):
    """Optional capability: the source copies tables, beside its log."""

    def progress(self) -> Sequence[TableProgress]:
        """How far the copying of tables is; none when none is copied. Driver; cheap, asked every second."""


@runtime_checkable
class Resyncs(Protocol):
    """Optional capability: a table can be read anew."""

    def resync(self, table: TableId) -> None:
        """Ask for a table to be read anew, while the pipeline runs or before its next run.

        Any process; `Context.store` is that of the pipeline. Raises SourceError when the source cannot.
        """


@runtime_checkable
class Captures(Protocol):
    """Optional capability: the source tells whether it captures a table that it may have captured at another time."""

    def captures(self, table: TableId) -> bool:
        """Whether rows of the table come, by the options as they are now. Driver."""


@runtime_checkable
class CopiesAnew(Protocol):
    """Optional capability: the source copies a table anew when the engine needs it, whatever the sink has of it."""

    def copies_anew(self, table: TableId) -> bool:
        """Whether it does so for this table: the options may have it that only changes get into the sink. Driver."""

    def copy_anew(self, table: TableId, request: str, reason: str, *, asked: bool, fits: bool = False) -> None:
        """Ask for a copy that begins, in a later batch, with a `CreateShadow`. It has the table's schema
        unless it `fits`: the sink's table has these columns and goes on with the log meanwhile.

        Any process. On disk when it returns; one `request` counts once. `reason` is for the user, who has asked for it
        himself where `asked`: a table of any size is copied then. Raises StateError.
        """


@runtime_checkable
class Positions(Protocol):
    """Optional capability: a row's sequence stands for a place in the log that people can look up."""

    def position_text(self, sequence: int) -> str:
        """The place of a `ChangeBlock.sequence` in the source's own words, for messages and dead letters.

        Empty for a row that is from no log. Pure; executor and driver.
        """


class TablesNow(Protocol):
    """Tables as they are now, read beside the pipeline. One process, one thread; it holds connections open.

    All of it raises SourceError and SourceUnavailable.
    """

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables with their schemas as of now."""

    def partial(self, table: TableId) -> str:
        """Why the sink need not have all rows of the table that there are, empty when it has to. Pure."""

    def keys(self, table: TableId) -> tuple[str, ...]:
        """The columns of a key by which rows can be read one by one; empty when there are none."""

    def rows(self, table: TableId, keys: pa.RecordBatch | None, count: Count) -> Iterator[ChangeBlock]:
        """All rows, each part of the table as of one moment after the call; or those with one of these `keys`.

        A key may bring more rows than its own, such as those that the server's collation takes for it.
        """

    def end(self) -> Offset:
        """Where the log ends now. Whatever was read before is in the log up to there."""

    def reached(self, committed: Offset, end: Offset, tables: Sequence[TableId]) -> bool:
        """Whether everything up to `end` that is about these tables is in the log up to `committed`."""

    def close(self) -> None:
        """Close what is open."""


@runtime_checkable
class ReadsNow(Protocol):
    """Optional capability, for `cdc verify`: tables can be read as they are now, whatever the pipeline does."""

    def now(self) -> TablesNow:
        """A reader; the caller closes it. Opens nothing yet."""


@runtime_checkable
class ExaminesSource(Protocol):
    """Optional capability, for `cdc doctor`."""

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """What a pipeline needs of the source, looked at one by one; an error is a finding. Changes nothing.

        `committed` is where the pipeline is, None for one that has not begun.
        """


@runtime_checkable
class StartsAt(Protocol):
    """Optional capability, for `cdc import`: a pipeline begins where another tool is."""

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset for another tool's position, and what that is in words. Instead of `initial_offset`.

        Writes what that one writes. Raises SourceError for a position that cannot be read or is not in the log.
        """
