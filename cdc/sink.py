"""The sink contract: four required methods, two phases; all others have a default. Independent of Spark.

The steps of a batch: `apply` its schema changes (driver) -> `prepare` its rows (executors) -> write the decision file
(driver) -> `commit` (driver). After a crash before the decision, the engine calls `abort` and repeats the whole batch;
after a crash that follows it, it calls `commit` again with the recorded handles and reads no rows again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import EngineError, SinkError
from cdc.finding import Finding, ok
from cdc.schema import SchemaChange, TableId, TableSchema, shadow_of

MOST_PAYLOAD = 64 << 20
"""Maximum bytes of `Prepared.payload` that one task may return to the driver, for all of its tables together."""


class Delivery(StrEnum):
    """The delivery guarantee of a sink, and what a reader of its tables may see."""

    TWO_PHASE = "two-phase"
    """Prepared rows are durable and invisible until the driver commits. A reader sees whole batches of a table: nothing
    of a batch before its commit, all of it afterwards, each change once, whatever crashed. Tables may become visible
    one after the other where the system commits table by table."""
    COMMIT_IN_TASK = "commit-in-task"
    """A task commits its rows in a transaction with a fence; a repeated task finds the fence and writes nothing. Each
    change is present once. A reader sees whole tasks, in log order for each key, and may see rows of a batch that is
    not decided yet: after a crash the same batch is written, from the same splits."""
    IDEMPOTENT = "idempotent"
    """Rows become visible as `commit` sends them, in order; a repeat changes nothing, as each row has its key and its
    log position. A reader may see a part of a batch until its commit has finished; then the tables are equal."""


class KeylessRows(StrEnum):
    """A sink's handling of changes of tables without a primary key."""

    EQUAL = "equal"
    """As a multiset: all equal rows are kept; a delete or an update removes one of them."""
    INSERTS = "inserts"
    """Inserted rows are kept, each once; a delete or an update stops the run with an error."""
    CHANGES = "changes"
    """Every change is a record of its own, in order."""
    REFUSED = "refused"
    """`apply` refuses to create such a table (ChangeRefused): the system identifies rows by key only."""


class SavedReports(Protocol):
    """The source's reports about the rows of one attempt."""

    def save(self) -> str:
        """Save them; see `TaskAttempt.save_reports`."""

    def note_visible(self) -> None:
        """Note that rows become visible; see `TaskAttempt.note_visible`."""

    def restore(self, id_: str) -> None:
        """Use the reports of another attempt; see `TaskAttempt.restore_reports`."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """Identifies one attempt to prepare one partition of one batch.

    Derive names of prepared data from (pipeline, batch, partition), never from a clock. `attempt` may distinguish the
    files of overlapping attempts, as only the returned handles count. `generation` belongs in the names too: how often
    the sink has lost decided rows of the batch (LoadsLost), which are then prepared again. `rows` identifies the rows:
    the same text for the same part of the log, also in a replay; empty where unknown. `again` means that an earlier run
    may have begun with the partition. `noting` and `reports` belong to the engine and implement the methods.
    """

    batch: int
    partition: int
    attempt: int
    generation: int = 0
    rows: str = ""
    again: bool = False
    noting: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)
    reports: SavedReports | None = field(default=None, compare=False, repr=False)

    def save_reports(self) -> str:
        """Save the source's reports about this attempt; return an id, perhaps empty, to be committed with the rows.

        For a sink that commits in the task: call it once all blocks were read and before the commit. The reports are on
        disk when this returns. Executor, inside `prepare`. Raises StateError.
        """
        return "" if self.reports is None else self.reports.save()

    def note_visible(self) -> None:
        """Note that rows of this attempt become visible as they are sent and stay there when it is repeated.

        The source's reports to a repeat then cover all moments at which earlier attempts may have read (at least once).
        Executor, inside `prepare`, before the first row is sent.
        """
        if self.reports is not None:
            self.reports.note_visible()

    def restore_reports(self, id_: str) -> None:
        """Use the reports of the earlier attempt that committed the rows of this partition with this id.

        This attempt may have read a table at a later moment, so its own reports do not count. Executor, inside
        `prepare`, once all blocks were read. Raises StateError.
        """
        if self.reports is not None:
            self.reports.restore(id_)

    def note(self, value: Any) -> None:
        """Store a name that is not derivable from the batch, such as of a file with a random part, before it is used.

        A JSON value; on disk in the state directory when this returns, so note many names in one call, as a list. Notes
        that the batch's decision does not cover are passed to `Sink.abort`. Executor, inside `prepare`; thread-safe.
        Raises StateError.
        """
        if self.noting is None:
            raise EngineError("this attempt of a task keeps no notes", hint="give TaskAttempt a `noting`")
        self.noting(value)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A handle on durable, not yet visible rows of one table. Stored in the task's result and the decision file.

    Attributes:
        table: sink table.
        partition: partition of the batch; committing in this order keeps log order.
        handle: the sink's own JSON value: a file name, a label, a transaction id. Small.
        inserts, updates, deletes: number of changes for the user (an update counts once, not per image).
        counts: values that the sink changed or skipped on purpose, by reason; shown to the user with the source's.
        payload: the sink's own bytes, such as commit messages: stored in a file next to the decision and verified when
            read. At most MOST_PAYLOAD bytes for all handles of a task together.
    """

    table: TableId
    partition: int
    handle: Any
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    payload: bytes = field(default=b"", repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object without the payload; `from_json` reads it back."""
        return {
            "table": {"database": self.table.database, "table": self.table.table},
            "partition": self.partition,
            "handle": self.handle,
            "inserts": self.inserts,
            "updates": self.updates,
            "deletes": self.deletes,
            "counts": self.counts,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], payload: bytes = b"") -> Prepared:
        """Read the handle that `to_json` wrote and attach its payload."""
        return cls(**{**fields, "table": TableId(**fields["table"]), "payload": payload})


@dataclass(frozen=True, slots=True)
class Announced:
    """A schema change applied to the sink, with the sink table's schema before and after it; None is no table."""

    change: SchemaChange
    before: TableSchema | None
    after: TableSchema | None


class Sink(ABC):
    """Writes batches. Built on the driver and pickled to executors: open connections lazily.

    Attributes:
        delivery: the delivery guarantee; required.
        keyless: how it handles tables without a key; required.
        shadows: whether it re-snapshots into a shadow table. `apply` then gets `CreateShadow`, which creates an empty
            shadow table (replacing a leftover one), and `SwapShadow`, which replaces the table with it in one step: at
            every moment readers find one of them, complete. Rows of the re-snapshot are written to `shadow(table)`. A
            change that empties, drops or renames the table drops its shadow table. A sink without shadow tables gets
            `TruncateTable`, or `DropTable` and `CreateTable`, and rows for the table itself.
    """

    delivery: ClassVar[Delivery]
    keyless: ClassVar[KeylessRows]
    shadows: ClassVar[bool] = False

    @abstractmethod
    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply a batch's schema changes in order. Driver, before its rows and while nothing is being prepared.

        Repeated with the same batch and changes after a crash: do not apply a change twice. The same changes in a later
        batch are new changes. SQL-like sinks inherit this from `cdc.evolution.table_sink.TableSink`. Raises
        ChangeRefused when the sink cannot apply one.
        """

    @abstractmethod
    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Make rows durable, and invisible as far as `delivery` says. Executor; once per task attempt.

        A retried task calls it again with the same batch and partition; only the handles of the successful attempt are
        committed. Consume `blocks` as a stream: never hold all of them. Note a name that cannot be derived from batch
        and partition before using it (`TaskAttempt.note`).
        """

    @abstractmethod
    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Mapping[str, int] | None:
        """Make the whole batch visible. Driver; idempotent: may be repeated for the same batch.

        `prepared` is ordered by partition, each with its payload. Returns counts that only the commit reveals, like
        `Prepared.counts`; None for none. Raises CommitFailed (nothing is visible; retryable), CommitUnknown, or
        LoadsLost for decided rows that the system has lost.
        """

    @abstractmethod
    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove whatever was prepared under this batch's names and never decided.

        Driver; at the start after a crash and after a failed batch; may be repeated. `noted`: values of
        `TaskAttempt.note`, in order, of this batch and later ones, and of attempts of earlier batches whose handles did
        not count. The engine deletes them once this returns.
        """

    def check(self) -> None:  # noqa: B027 - most sinks have no server that could be unavailable
        """Connect and log in, so that a wrong password fails before anything is started. Driver, once per run.

        Raises SinkError.
        """

    def reach(self) -> None:  # noqa: B027 - for sinks whose tasks connect to something
        """Connect and log in without retries. Executor on another machine, before the first batch. Raises SinkError."""

    def warm(self) -> None:  # noqa: B027 - most sinks load nothing big
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""

    def shadow(self, table: TableId) -> TableId:
        """Return the id of a table's shadow table, for a sink with `shadows`. Pure; driver and executors."""
        return shadow_of(table)

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:  # noqa: B027 - tables show their columns
        """Publish the schema changes that `apply` applied for a batch, in order with its rows. Driver.

        Called between `apply` and the batch's rows, after all rows of the previous batch. Repeated with the same batch
        and changes after a crash: do not publish a change twice. Raises SinkError.
        """

    def last_committed_batch(self) -> int | None:
        """Return the last batch of this pipeline in the system, -1 for none; None when the system does not record it.

        Driver, at the start. Raises SinkError.
        """
        return None

    def missing_tables(self, tables: Sequence[TableId]) -> Sequence[TableId] | None:
        """Return those of the sink tables that do not exist or that the user cannot see; None when unknown.

        Driver. Raises SinkError.
        """
        return None

    def describe(self, table: TableId) -> TableSchema | None:
        """Return the sink table's actual schema in this tool's types; None when missing or not queryable. Driver.

        Changes nothing. Raises SinkError.
        """
        return None

    def holds_rows(self, table: TableId) -> bool:
        """Whether a sink table has rows; False when it does not exist or cannot be queried. Driver.

        Called before a pipeline that snapshots a table creates it (`pipeline.existing-rows`). Raises SinkError.
        """
        return False

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str] | None:
        """Return the statements or operations that `apply` would execute now, for `cdc plan`; None: unknown. Driver.

        Changes nothing. Raises ChangeRefused where `apply` would, SinkError.
        """
        return None

    def compact(self, table: TableId) -> str | None:
        """Merge a table's files and remove those that no reader needs; return what was done, for `cdc compact`. Driver.

        Works concurrently with a run or without one; None: the system does it automatically. Raises SinkError.
        """
        return None

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """Return a reader of a table's columns in `schema`, for `cdc verify`; None when there is no such table. Driver.

        The sink is not pickled afterwards. A text says why the table's rows are never equal to the source's, such as
        for a table that only grows. Raises SinkError.
        """
        kind = type(self).__name__.removesuffix("Sink").lower()
        hint = "compare a sink that reads them; of several sinks `--sink NAME` compares one"
        raise SinkError(f"what {kind} holds cannot be compared with the source", where=f"sink {kind}", hint=hint)

    def examine(self) -> Iterator[Finding]:
        """Yield findings for `cdc doctor`: each thing that a pipeline needs of the sink. Changes nothing.

        Raises SinkError, which `cdc doctor` reports as a finding.
        """
        self.check()
        yield ok("connection", "can be reached")


def lacks_batches(found: int, committed: int, where: str) -> SinkError:
    """Return the error for a sink with batches of the pipeline up to `found`, -1 for none, that has had `committed`.

    The next batch is not written there, as the rows of those between would be missing.
    """
    has = f"has only the batches of this pipeline up to {found}" if found >= 0 else "has no batch of this pipeline"
    return SinkError(
        f"{has}, while {committed} was committed: its data was removed, or replaced by an older copy, such as a backup "
        "or a replica that was behind",
        where=where,
        hint="restore the newer data; or remove it and start over with another --state-dir",
    )


T = TypeVar("T")


def stored_columns(table: TableId, schema: TableSchema, there: Mapping[str, T]) -> list[T]:
    """Return the sink table's columns in the schema's order; `there` has them by casefolded name.

    Raises SinkError when the table lacks one.
    """
    missing = [name for name in schema.names if name.casefold() not in there]
    if missing:
        hint = "was it changed outside of this pipeline? `cdc resync` re-snapshots the table"
        raise SinkError(f"the table has no column {', '.join(missing)}", where=str(table), hint=hint)
    return [there[name.casefold()] for name in schema.names]


class StoredTable(Protocol):
    """A sink table whose rows are read back. Both methods return the same columns, of the same Arrow types."""

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Return all rows, or those with one of `keys`: the sink's key columns as `as_stored` returns them.

        Includes everything committed before the call; rows of a batch that commits meanwhile may or may not appear.
        Raises SinkError.
        """

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert written rows to the values that the table stores; columns in the schema's order. Raises SinkError.

        A value that the table cannot hold becomes NULL.
        """
