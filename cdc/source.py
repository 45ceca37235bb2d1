"""The source contract: seven methods; everything else has a default. Nothing here knows Spark.

A source object is built on the driver from its options and pickled to two other places: the stream reader process (one
per run, plans batches) and the executors (read them). Build it cheaply, open connections lazily, hold no live handle in
a pickled attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SourceError
from cdc.events import SourceEvent
from cdc.finding import Finding, ok
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.state.store import Store
from cdc.state.waits import Waits

Offset = dict[str, Any]
"""A point in the source's history: a JSON object of strings, integers and booleans. It names data, never time."""


Count = Callable[[str, int], None]
"""Reports a counted, visible reason: something that was changed or left out on purpose. Summed over the run."""

NOTICES = 50
"""Most notices that come with one report of the lag."""

Report = Callable[[dict[str, Any]], None]
"""Tells the source's driver side something about a split, as a JSON object: it comes back in `Source.store_reports`."""


class Flag(Protocol):
    """Says yes or no, such as a path of a file that somebody makes."""

    def exists(self) -> bool:
        """Yes or no, now. Cheap."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """The runs of one pipeline into several sinks, as one of them sees them: they read the same log on one machine.

    Attributes:
        folder: theirs alone, for what one has read and the others need not read again; it goes when the runs end.
        name: of this one among them; up to 40 letters, digits, `-` and `_`.
        count: of them, this one included.
        metadata: what any of them asks of each row, as in `Context`.
    """

    folder: Path
    name: str
    count: int
    metadata: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The facts about the run that a connector gets.

    Attributes:
        pipeline: the pipeline's id: stable over restarts, unique per state directory; part of every name in the sink.
        store: what the connector keeps in the state directory; survives restarts, seen by every process.
        stop_file: exists once the run is asked to stop; None when nobody asks.
        metadata: what the sink asks of each row besides the source's `metadata.list`, by name; a source gives what it
            knows of it (`ChangeBlock.metadata`).
        siblings: the runs that read the same log; None for a run alone, and where a task cannot see their folder.
    """

    pipeline: str
    store: Store
    stop_file: Flag | None = None
    metadata: tuple[str, ...] = ()
    siblings: Siblings | None = None

    def stopping(self) -> bool:
        """Whether the run is asked to stop: what waits for a server that is gone then gives up. Any process."""
        return self.stop_file is not None and self.stop_file.exists()

    def retry_policy(self, timeout_s: float) -> RetryPolicy:
        """The patience of a connector with a system that is away: a stop ends it, and the user is told of it."""
        return RetryPolicy(timeout_s, stopping=self.stopping, waiting=self.waiting)

    def waiting(self, text: str) -> None:
        """Say what is waited for, for the status line; the driver has it within a second. Any process."""
        Waits(self.store).note(text)


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of one batch: soft limits, which a single transaction may exceed."""

    max_bytes: int
    max_rows: int


class Snapshots(StrEnum):
    """The times at which a source snapshots a table of a running pipeline."""

    NEVER = "never"
    """The source only reads a log, or does not follow the table."""
    ON_REQUEST = "on request"
    """When a user asks for it."""
    ALWAYS = "always"
    """Whenever the engine needs it."""


@dataclass(frozen=True, slots=True)
class Order:
    """A snapshot that the engine orders of a table.

    Attributes:
        id: of this order alone: a snapshot that has begun for it is not begun again.
        reason: for people.
        limited: nobody asked for it; a table that is too large for that may be refused.
    """

    id: str
    reason: str
    limited: bool = False


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
    """The distance of the last planned batch from the end of the source's log, as the source knows it.

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
    def with_notices(
        cls, notices: Sequence[str], bytes: int = 0, note: str = "", transactions: int | None = None
    ) -> Lag:
        """With the end of a list of notices that only grows."""
        return cls(bytes, note, tuple(notices[-NOTICES:]), len(notices), transactions)


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The progress of the copying of one table.

    Attributes:
        state: `waiting` (nothing of it is read yet), `copying` or `done`.
        rows: copied. `estimated_rows`: in the table, roughly; never less than `rows`.
        chunks: copied. `planned_chunks`: as far as they are known yet.
        started_s, updated_s: when this run began its first part, and had copied its last one, seconds since the epoch;
            0 before.
        rows_per_s: over the last seconds.
        why: it is re-snapshotted; empty for a table that is copied for the first time.
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

    The seven abstract methods are what every source has; the others have a default, and what is missing with it is in
    docs/write-a-connector.md.
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

        Stream reader process. The batch ends at a transaction boundary, and every table has one schema in it: the
        events of the batch come before all of its rows of that table. `limits` None means no limit.
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
    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """The events of a batch, in log order (`cdc.events`). Driver; asked again after a crash, same answer."""

    @abstractmethod
    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """The split's changes in log order. Executor; may be called again after a failure and then gives the same.

        `count` takes what the user has to see: a name such as `invalid-date-to-null shop.orders.shipped`, and how many.
        `report` takes what `decided` is to be told when these very rows are what the batch will commit.
        """

    def order(self, orders: Mapping[TableId, Order]) -> None:  # noqa: B027 - most sources snapshot nothing
        """The open orders for snapshots, by names as of the last decided batch; before each `latest_offset`.

        Stream reader process. An order stays open until the batch in which its snapshot has begun is decided.
        """

    def snapshots(self, table: TableId) -> Snapshots:
        """When orders for a snapshot of a table are carried out. Any process."""
        return Snapshots.NEVER

    def captures(self, table: TableId) -> bool:
        """Whether the source follows the table, by the options as they are now. Driver."""
        return True

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:  # noqa: B027 - most tasks find nothing out
        """Take what the tasks of a batch have reported, once its decision is on disk, before the next is planned.

        Driver; in the order of splits. Called again with the same reports after a crash, so it has to be idempotent.
        """

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The reports of a repeat when rows of earlier attempts may be in the sink, too: as if all had been read at the
        earliest moment that is possible, so that all changes since come (again). Executor.
        """
        return reports

    def progress(self) -> Sequence[TableProgress]:
        """How far the snapshots of tables are; none when none is made. Driver; cheap, asked every second."""
        return ()

    def stop(self) -> None:  # noqa: B027 - most sources hold nothing open
        """Close what is open. Stream reader process, at the end of the run; not guaranteed after a crash.

        In a bounded run it also comes from another thread, while `latest_offset` waits: that then returns at once.
        """

    def warm(self) -> None:  # noqa: B027 - most sources load nothing big
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""

    def commit(self, end: Offset) -> None:  # noqa: B027 - most logs keep nothing for a reader
        """Everything up to `end` is in the sink and will not be asked for again. Stream reader process."""

    def reach(self) -> None:  # noqa: B027 - for sources whose tasks connect to something
        """Connect and log in, now or never. Executor on another machine, before the first batch. Raises SourceError."""

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """Schemas of the tables that the log of a bounded source begins with. Driver, before the first run.

        Raises SourceError.
        """
        return {}

    def lag(self) -> Lag | None:
        """How far behind the last planned batch is, with notices; None when nothing is known. Stream reader process."""
        return None

    def position_text(self, sequence: int) -> str:
        """The place of a `ChangeBlock.sequence` in the source's own words, for messages and dead letters.

        Empty for a row that is from no log. Pure; executor and driver.
        """
        return str(sequence)

    def tables_now(self) -> TablesNow | None:
        """A reader of the tables as they are now, for `cdc verify`; None: only their changes can be read.

        The caller closes it. Opens nothing yet.
        """
        return None

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Findings for `cdc doctor`: what a pipeline needs of the source, one by one. Changes nothing.

        `committed` is where the pipeline is, None for one that has not begun. Raises SourceError, a finding too.
        """
        yield ok("tables", f"{len(self.tables())} match and can be read")

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset for another tool's position, and its description, for `cdc import`. Driver.

        Instead of `initial_offset`; writes what that one writes. Raises SourceError for a position that cannot be read
        or is not in the log.
        """
        raise SourceError("it takes no positions of other tools", where=f"source {type(self).__name__}")


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

    def covers(self, committed: Offset, end: Offset, tables: Sequence[TableId]) -> bool:
        """Whether everything up to `end` that is about these tables is in the log up to `committed`."""

    def close(self) -> None:
        """Close what is open."""
