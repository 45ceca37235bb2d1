"""The source contract: seven required methods, all others have a default. Independent of Spark.

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
"""A position in the source's log: a JSON object of strings, integers and booleans. It identifies data, never a time."""


Count = Callable[[str, int], None]
"""Counts something that was changed or skipped on purpose, by reason. Shown to the user, summed over the run."""

NOTICES = 50
"""Maximum number of notices in one lag report."""

Report = Callable[[dict[str, Any]], None]
"""Sends a JSON object about a split to the driver, which passes it to `Source.store_reports`."""


class Flag(Protocol):
    """A flag that another process may set, such as the path of a marker file."""

    def exists(self) -> bool:
        """Return whether the flag is set. Cheap."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """The runs of one pipeline into several sinks, as seen by one of them. All read the same log on one machine.

    Attributes:
        folder: shared by these runs only, so that each part of the log is read once; deleted when the runs end.
        name: name of this run; up to 40 letters, digits, `-` and `_`.
        count: number of runs, including this one.
        metadata: metadata columns that any of them needs, as in `Context`.
    """

    folder: Path
    name: str
    count: int
    metadata: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The run, as far as a connector knows it.

    Attributes:
        pipeline: the pipeline's id: stable over restarts, unique per state directory; part of every name in the sink.
        store: the connector's own data in the state directory; survives restarts, visible to every process.
        stop_file: exists once a stop of the run is requested; None when it cannot be requested.
        metadata: names of metadata columns that the sink needs in addition to the source's `metadata.list`; a source
            fills in those it knows (`ChangeBlock.metadata`).
        siblings: the runs that read the same log; None for a single run and where a task cannot see their folder.
    """

    pipeline: str
    store: Store
    stop_file: Flag | None = None
    metadata: tuple[str, ...] = ()
    siblings: Siblings | None = None

    def stopping(self) -> bool:
        """Whether a stop of the run is requested: stop waiting for an unavailable server then. Any process."""
        return self.stop_file is not None and self.stop_file.exists()

    def retry_policy(self, timeout_s: float) -> RetryPolicy:
        """The retry policy for an unavailable system: a stop of the run ends it, and waits show in the status line."""
        return RetryPolicy(timeout_s, stopping=self.stopping, waiting=self.waiting)

    def waiting(self, text: str) -> None:
        """Show in the status line what the connector waits for; the driver sees it within a second. Any process."""
        Waits(self.store).note(text)


@dataclass(frozen=True, slots=True)
class Limits:
    """Soft limits for the size of one batch; a single transaction may exceed them."""

    max_bytes: int
    max_rows: int


class Snapshots(StrEnum):
    """The occasions on which a source can snapshot a table of a running pipeline."""

    NEVER = "never"
    """Never: the source only reads a log, or does not capture the table."""
    ON_REQUEST = "on request"
    """When a user requests it."""
    ALWAYS = "always"
    """Whenever the engine needs one."""


@dataclass(frozen=True, slots=True)
class Order:
    """The engine's order to snapshot a table.

    Attributes:
        id: unique: a source that has begun the snapshot of this id does not begin it again.
        reason: for people.
        limited: not requested by a user; the source may refuse a table that is too large.
    """

    id: str
    reason: str
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a batch that one task reads.

    `payload` belongs to the source: a JSON value (objects with text keys, lists, text, integers, booleans, null), small
    (well under 1 MB). It is stored before the batch is read; a replay after a crash uses the stored value.
    `moment_ms` is the time of the batch, milliseconds since the epoch, the same in a replay; `again` means that an
    earlier run may have begun to read the split. The engine sets both.
    """

    index: int
    payload: Any
    moment_ms: int = 0
    again: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Lag:
    """The distance from the last planned batch to the end of the source's log, as far as the source knows it.

    Attributes:
        bytes: bytes of log. Spark reports it once the batch is committed.
        transactions: the same in transactions; None where the source does not count them.
        note: what the source is doing when it is not simply reading, such as waiting for an unavailable server.
        notices: one-time messages to the user, each a sentence: the last NOTICES of them, oldest first.
        noticed: number of notices since the source object was created.
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
        """Build a Lag with the last entries of an append-only list of notices."""
        return cls(bytes, note, tuple(notices[-NOTICES:]), len(notices), transactions)


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The progress of one table's snapshot.

    Attributes:
        state: `waiting` (no row read yet), `copying` or `done`.
        rows: rows copied. `estimated_rows`: rough number of rows in the table; never less than `rows`.
        chunks: chunks copied. `planned_chunks`: chunks known so far.
        started_s, updated_s: when this run began its first chunk and finished its latest, seconds since the epoch;
            0 before.
        rows_per_s: rate of the last few seconds.
        why: reason of a re-snapshot; empty for a first snapshot.
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
        """Seconds until the snapshot is done at this rate; None when unknown."""
        if self.state != "copying" or self.rows_per_s <= 0:
            return None
        return (self.estimated_rows - self.rows) / self.rows_per_s


class Source(ABC):
    """Reads a change log in batches: closed ranges of offsets that give the same rows each time they are read.

    Every source implements the seven abstract methods. docs/write-a-connector.md says what a source lacks with the
    default of each other method.
    """

    bounded: bool = False
    """True when the log has an end (files): a run stops once everything was read."""

    lists_all_tables: bool = False
    """True when `tables` returns every table of a new pipeline except those created later: a pattern must match one."""

    @abstractmethod
    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables with their current schemas. Driver; for `cdc plan` and a run's first log line."""

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Return where a new pipeline starts. Stream reader process; once per state directory (which stores it)."""

    @abstractmethod
    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """Return the end of the next batch after `start`, or `start` when nothing arrived within `wait_s` seconds.

        Stream reader process. A batch ends at a transaction boundary, and each table has one schema in it: all events
        of a table precede its rows. `limits` None means no limit.
        """

    @abstractmethod
    def stop_at_current(self) -> None:
        """Treat the current end of the log as its final end from now on. Stream reader process, once."""

    @abstractmethod
    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Divide a batch into splits in log order. Stream reader process; once per batch, as the splits are stored.

        After a crash before they were stored, it is called for the unfinished batch on a new object whose
        `latest_offset` was not called, so it may depend only on the offsets and on `Context.store`.
        """

    @abstractmethod
    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """Return the events of a batch, in log order (`cdc.events`). Driver; deterministic: repeated after a crash."""

    @abstractmethod
    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Return the split's changes in log order. Executor; deterministic: may be repeated after a failure.

        `count` records what the user has to see: a name like `invalid-date-to-null shop.orders.shipped`, and a number.
        `report` sends objects to `store_reports`, if the batch commits the rows of this attempt.
        """

    def order(self, orders: Mapping[TableId, Order]) -> None:  # noqa: B027 - most sources snapshot nothing
        """Receive the open snapshot orders, by table names as of the last decided batch; before each `latest_offset`.

        Stream reader process. An order stays open until the batch in which its snapshot begins is decided.
        """

    def snapshots(self, table: TableId) -> Snapshots:
        """Return when the source executes snapshot orders for a table. Any process."""
        return Snapshots.NEVER

    def captures(self, table: TableId) -> bool:
        """Whether the current options capture the table. Driver."""
        return True

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:  # noqa: B027 - most tasks report nothing
        """Store the reports of a batch's tasks, once its decision is on disk and before the next batch is planned.

        Driver; in split order. Repeated with the same reports after a crash, so it has to be idempotent.
        """

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Widen the reports of a repeated attempt when rows of earlier attempts may also be in the sink.

        The result is as if all rows had been read at the earliest possible moment, so that all changes since then are
        sent (again). Executor.
        """
        return reports

    def progress(self) -> Sequence[TableProgress]:
        """Return the progress of running snapshots. Driver; cheap: called every second."""
        return ()

    def stop(self) -> None:  # noqa: B027 - most sources hold nothing open
        """Close what is open. Stream reader process, at the end of the run; not guaranteed after a crash.

        In a bounded run another thread may call it while `latest_offset` waits, which then returns at once.
        """

    def warm(self) -> None:  # noqa: B027 - most sources load nothing big
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""

    def commit(self, end: Offset) -> None:  # noqa: B027 - most logs keep nothing for a reader
        """Note that everything up to `end` is in the sink and will not be read again. Stream reader process."""

    def reach(self) -> None:  # noqa: B027 - for sources whose tasks connect to something
        """Connect and log in, without retries. Executor on another machine, before the first batch.

        Raises SourceError.
        """

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """Return the schemas of the tables at the start of a bounded source's log. Driver, before the first run.

        Raises SourceError.
        """
        return {}

    def lag(self) -> Lag | None:
        """Return the lag of the last planned batch, with notices; None when unknown. Stream reader process."""
        return None

    def position_text(self, sequence: int) -> str:
        """Return the log position of a `ChangeBlock.sequence` in the source's notation, for messages and dead letters.

        Empty for a row that comes from no log. Pure; executor and driver.
        """
        return str(sequence)

    def current_tables(self) -> CurrentTables | None:
        """Return a reader of the tables' current rows, for `cdc verify`; None when only their changes can be read.

        The caller closes it. Opens no connection yet.
        """
        return None

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Yield findings for `cdc doctor`: each thing that a pipeline needs of the source. Changes nothing.

        `committed` is the pipeline's last committed offset, None for a new pipeline. Raises SourceError, which
        `cdc doctor` reports as a finding.
        """
        yield ok("tables", f"{len(self.tables())} match and can be read")

    def start_at(self, position: str) -> tuple[Offset, str]:
        """Return the initial offset for another tool's position, and its description, for `cdc import`. Driver.

        Replaces `initial_offset` and writes the same state. Raises SourceError for a position that cannot be read
        or is not in the log.
        """
        raise SourceError("it does not accept positions of other tools", where=f"source {type(self).__name__}")


class CurrentTables(Protocol):
    """Reader of the tables' current rows, independent of the pipeline. One process, one thread; holds connections open.

    All methods may raise SourceError and SourceUnavailable.
    """

    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables with their current schemas."""

    def partial(self, table: TableId) -> str:
        """Return why the sink may lack existing rows of the table; empty when it must have all of them. Pure."""

    def keys(self, table: TableId) -> tuple[str, ...]:
        """Return the key columns by which single rows can be read; empty when there are none."""

    def rows(self, table: TableId, keys: pa.RecordBatch | None, count: Count) -> Iterator[ChangeBlock]:
        """Return all rows, each part of the table as of one moment after the call, or the rows with one of `keys`.

        A key may return more rows than its own, such as those that are equal under the server's collation.
        """

    def end(self) -> Offset:
        """Return the current end of the log. All changes to rows read earlier are in the log before it."""

    def covers(self, committed: Offset, end: Offset, tables: Sequence[TableId]) -> bool:
        """Whether all changes of these tables up to `end` are in the log up to `committed`."""

    def close(self) -> None:
        """Close what is open; a later call opens it anew."""
