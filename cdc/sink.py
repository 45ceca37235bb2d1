"""The sink contract: four methods, two phases; everything else has a default. Nothing here knows Spark.

One batch goes: `apply` its schema changes (driver) -> `prepare` its rows (executors) -> the decision file is written
(driver) -> `commit` (driver). A crash before the decision means `abort` and the whole batch again; a crash after it
means `commit` again with the recorded handles, and the rows are not read again.
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
"""Bytes of `Prepared.payload` that one task may hand to the driver, all of its tables together."""


class Delivery(StrEnum):
    """The promise of a sink, and what a reader of its tables may see."""

    TWO_PHASE = "two-phase"
    """Prepared rows are durable and invisible until the driver commits. A reader sees whole batches of a table: before
    the commit nothing of a batch, after it all, each change once, whatever crashed. Tables may become visible one after
    the other where the system commits table by table."""
    COMMIT_IN_TASK = "commit-in-task"
    """A task commits its rows itself, in a transaction with a fence; a repeat finds the fence and writes nothing. Each
    change is there once. A reader sees whole tasks, in log order for each key, and may see rows of a batch that is not
    decided yet: the same batch is written after a crash, from the same splits."""
    IDEMPOTENT = "idempotent"
    """Rows become visible as `commit` sends them, in order; a repeat changes nothing, as each row has its key and its
    place in the log. A reader may see a part of a batch until its commit is through; then the table is equal."""


class KeylessRows(StrEnum):
    """The changes of tables without a primary key that a sink carries out."""

    EQUAL = "equal"
    """As a multiset: equal rows are all kept, a delete or an update takes one of them."""
    INSERTS = "inserts"
    """Inserted rows are kept, each once; a delete or an update stops the run with an error that says so."""
    CHANGES = "changes"
    """Every change is a record of its own, in order."""
    REFUSED = "refused"
    """`apply` refuses to create such a table (ChangeRefused): the system tells rows apart by a key only."""


class SavedReports(Protocol):
    """The reports of the source about the rows of one attempt."""

    def save(self) -> str:
        """Save them, as `TaskAttempt.save_reports` says."""

    def note_visible(self) -> None:
        """Take note of what `TaskAttempt.note_visible` says."""

    def restore(self, id_: str) -> None:
        """Go by those of another attempt, as `TaskAttempt.restore_reports` says."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """Names one attempt to prepare one part of one batch.

    Names of prepared data are a function of (pipeline, batch, partition) - never of a clock. `attempt` may separate the
    files of attempts that overlap, as only the returned handles count. `generation` is part of the names too: how often
    the sink has given up decided rows of the batch (LoadsLost), which are then prepared again. `rows` says which rows
    they are: the same text for the same part of the log, in a replay too; empty where nobody knows. `again` says that
    an earlier run may have begun with the part. `noting` and `reports` are the engine's, behind the methods.
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
        """Save the reports of the source about the rows of this attempt: an id to be committed with them; may be empty.

        For a sink that commits in the task, once all blocks were read and before its commit. On disk when this returns.
        Executor, inside `prepare`. Raises StateError.
        """
        return "" if self.reports is None else self.reports.save()

    def note_visible(self) -> None:
        """Rows of this attempt are seen as they are sent, and stay when it is made again (at least once): what the
        source reports to a repeat then covers the moments at which earlier attempts may have read.

        Executor, inside `prepare`, before the first row is sent.
        """
        if self.reports is not None:
            self.reports.note_visible()

    def restore_reports(self, id_: str) -> None:
        """The rows of this part were committed by an earlier attempt, with this id: what the source told that one
        counts. This one may have read a table at a later moment.

        Executor, inside `prepare`, once all blocks were read. Raises StateError.
        """
        if self.reports is not None:
            self.reports.restore(id_)

    def note(self, value: Any) -> None:
        """Keep a name that the sink cannot choose, such as of a file with a random part, before something gets it.

        A JSON value; on disk in the state directory when this returns, so note many names in one call: a list. What the
        decision on the batch does not cover is handed to `Sink.abort`. Executor, inside `prepare`; threads may share
        it. Raises StateError.
        """
        if self.noting is None:
            raise EngineError("this attempt of a task keeps no notes", hint="give TaskAttempt a `noting`")
        self.noting(value)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A handle on rows of one table, durable but not visible. Goes through a task's result and the decision file.

    Attributes:
        table: sink table.
        partition: which part of the batch; commit in this order keeps log order.
        handle: the sink's own JSON value: a file name, a label, a transaction id. Small.
        inserts, updates, deletes: changes counted for the user (an update counts once, not per image).
        counts: what the sink changed or left out on purpose: reason and number, shown to the user with the source's.
        payload: the sink's own bytes, such as commit messages: kept in a file beside the decision, checked when they
            are read again. All those of a task together have at most MOST_PAYLOAD bytes.
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
        """A JSON object with all but the payload; `from_json` reads it back."""
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
        """The handle that `to_json` wrote, with its payload."""
        return cls(**{**fields, "table": TableId(**fields["table"]), "payload": payload})


@dataclass(frozen=True, slots=True)
class Announced:
    """A schema change that the sink has carried out, with the sink's table before and after it; None is no table."""

    change: SchemaChange
    before: TableSchema | None
    after: TableSchema | None


class Sink(ABC):
    """Writes batches. Built on the driver and pickled to executors: open connections lazily.

    Attributes:
        delivery: what the sink promises; every sink says it.
        keyless: how it keeps rows of tables without a key; every sink says it.
        shadows: whether it re-snapshots into a shadow table. `apply` then gets `CreateShadow`, which makes the shadow
            table, empty (one that is left from before goes), and `SwapShadow`, which puts it in the table's place in
            one step: at every moment readers find one of them, whole. Rows of the re-snapshot come for
            `shadow(table)`. A change that empties, drops or renames the table drops its shadow table. A sink without
            them gets `TruncateTable`, or `DropTable` and `CreateTable`, and rows for the table itself.
    """

    delivery: ClassVar[Delivery]
    keyless: ClassVar[KeylessRows]
    shadows: ClassVar[bool] = False

    @abstractmethod
    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out a batch's schema changes in order. Driver, before its rows; nothing is prepared at that time.

        Repeated with the same batch and changes after a crash: what was carried out then is not done again. The same
        changes in a later batch are meant. A SQL-like sink has this from `cdc.evolution.table_sink.TableSink`. Raises
        ChangeRefused when the sink cannot do it.
        """

    @abstractmethod
    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Make rows durable, and invisible as far as `delivery` says. Executor; once per task attempt.

        A retried task calls it again under the same batch and partition, and only the handles of the attempt that
        succeeded are committed. Consume `blocks` as a stream: never hold all of them. A name that cannot be found
        again by batch and partition is noted first (`TaskAttempt.note`).
        """

    @abstractmethod
    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Mapping[str, int] | None:
        """Make all of the batch visible. Driver; may repeat for the same batch, and must then change nothing.

        `prepared` is ordered by partition, each with its payload. Returns what only now turned out to be changed or
        left out, like `Prepared.counts`, None for nothing. Raises CommitFailed (nothing visible, may be tried again),
        CommitUnknown, or LoadsLost for decided rows that the system has given up.
        """

    @abstractmethod
    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove whatever was prepared under this batch's names and never decided.

        Driver; on start after a crash and after a failed batch; may repeat. `noted`: values of `TaskAttempt.note`, in
        order, of this batch and later ones, and of attempts of earlier batches whose handles did not count; once this
        returns they are forgotten.
        """

    def check(self) -> None:  # noqa: B027 - most sinks have nothing that could be away
        """Reach the system and log in, so that a wrong password shows before anything is started. Driver, once a run.

        Raises SinkError.
        """

    def reach(self) -> None:  # noqa: B027 - for sinks whose tasks connect to something
        """Connect and log in, now or never. Executor on another machine, before the first batch. Raises SinkError."""

    def warm(self) -> None:  # noqa: B027 - most sinks load nothing big
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""

    def shadow(self, table: TableId) -> TableId:
        """The shadow table of a table, for a sink that has `shadows`. Pure; driver and executors."""
        return shadow_of(table)

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:  # noqa: B027 - tables show their columns
        """Publish all changes that `apply` has carried out for a batch, in order with its rows. Driver.

        Between `apply` and the batch's rows, and behind all rows of the batch before. Repeated with the same batch and
        changes after a crash: what was published then is not published again. Raises SinkError.
        """

    def last_committed_batch(self) -> int | None:
        """The last batch of this pipeline that the system has, -1 when none; None: the system does not know it.

        Driver, at the start. Raises SinkError.
        """
        return None

    def missing_tables(self, tables: Sequence[TableId]) -> Sequence[TableId] | None:
        """Sink tables of these that do not exist, or that the user cannot see; None when this cannot be found out.

        Driver. Raises SinkError.
        """
        return None

    def describe(self, table: TableId) -> TableSchema | None:
        """The sink table's actual schema in this tool's types; None when it does not exist or cannot be asked. Driver.

        Changes nothing. Raises SinkError.
        """
        return None

    def holds_rows(self, table: TableId) -> bool:
        """Whether a sink table has rows; False when it does not exist or cannot be asked. Driver.

        Asked before a pipeline that snapshots a table creates it (`pipeline.existing-rows`). Raises SinkError.
        """
        return False

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str] | None:
        """The statements or operations that `apply` would carry out now, for `cdc plan`; None: it cannot say. Driver.

        Changes nothing. Raises ChangeRefused where `apply` would, SinkError.
        """
        return None

    def compact(self, table: TableId) -> str | None:
        """Merge a table's files and remove what no reader needs any more; what was done, for `cdc compact`. Driver.

        Beside a run or without one; None: the system does it by itself. Raises SinkError.
        """
        return None

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The columns of `schema` of a table, for `cdc verify`; None when there is no such table. Driver.

        The sink is not pickled after it. A text says why its rows are not those of the source at any time, such as for
        a table that only grows. Raises SinkError.
        """
        kind = type(self).__name__.removesuffix("Sink").lower()
        hint = "compare a sink that reads them; of several sinks `--sink NAME` compares one"
        raise SinkError(f"what {kind} holds cannot be compared with the source", where=f"sink {kind}", hint=hint)

    def examine(self) -> Iterator[Finding]:
        """Findings for `cdc doctor`: what a pipeline needs of the sink, one by one. Changes nothing.

        Raises SinkError, which is a finding too.
        """
        self.check()
        yield ok("connection", "can be reached")


T = TypeVar("T")


def stored_columns(table: TableId, schema: TableSchema, there: Mapping[str, T]) -> list[T]:
    """The columns of a sink table for those of the schema; `there` has them by their names in lower case.

    Raises SinkError when the table lacks one.
    """
    missing = [name for name in schema.names if name.casefold() not in there]
    if missing:
        hint = "was it changed by somebody else? `cdc resync` re-snapshots the table"
        raise SinkError(f"the table has no column {', '.join(missing)}", where=str(table), hint=hint)
    return [there[name.casefold()] for name in schema.names]


class StoredTable(Protocol):
    """A sink table whose rows are read back. What both methods give has the same columns, of the same Arrow types."""

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """All rows; or those with one of these keys, columns of the sink's key as `as_stored` gives them.

        What is committed when the call begins is in it. A batch that commits meanwhile may be in it or not, row by row.
        Raises SinkError.
        """

    def as_stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The table's values of rows that were written to it, columns of the schema in its order. Raises SinkError.

        A value that the table cannot hold is given as NULL.
        """
