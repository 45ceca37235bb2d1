"""The sink contract: four methods, two phases. A connector's `sink.py` implements it; nothing here knows Spark.

One batch goes: `apply` its schema changes (driver) -> `prepare` its rows (executors) -> the decision file is written
(driver) -> `commit` (driver). A crash before the decision means `abort` and the whole batch again; a crash after it
means `commit` again with the recorded handles, and the rows are not read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.finding import Finding
from cdc.schema import SchemaChange, TableId, TableSchema


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """Names one attempt to prepare one part of one batch.

    Names of prepared data are a function of (pipeline, batch, partition) - never of a clock. `attempt` may separate the
    files of attempts that overlap, as only the returned handles count. `generation` is part of the names too: how often
    the sink has given up decided rows of the batch (LoadsLost), which are then prepared anew. `rows` says which rows
    they are: the same text for the same part of the log, in a replay too; empty where nobody knows. `again` says that
    an earlier run may have begun with the part.
    """

    batch: int
    partition: int
    attempt: int
    generation: int = 0
    rows: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A handle on rows of one table, durable in the sink but not visible. Goes through the decision file as JSON.

    Attributes:
        table: sink table.
        partition: which part of the batch; commit in this order keeps log order.
        handle: the sink's own JSON value: a file name, a label, a transaction id.
        inserts, updates, deletes: changes counted for the user (an update counts once, not per image).
        counts: what the sink changed or left out on purpose: reason and number, shown to the user with the source's.
    """

    table: TableId
    partition: int
    handle: Any
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Announced:
    """A schema change that the sink has carried out, with the sink's table before and after it; None is no table."""

    change: SchemaChange
    before: TableSchema | None
    after: TableSchema | None


class Sink(ABC):
    """Writes batches with two phases. Built on the driver and pickled to executors: open connections lazily."""

    @abstractmethod
    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out a batch's schema changes in order. Driver, before its rows; nothing is prepared at that time.

        Repeated with the same batch and changes after a crash: what was carried out then is not done again. The same
        changes in a later batch are meant. A SQL-like sink has this from `cdc.evolution.sql_sink.SqlSink`. Raises
        ChangeRefused when the sink cannot do it.
        """

    @abstractmethod
    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Make rows durable and invisible. Executor; once per task attempt.

        A retried task calls it again under the same batch and partition, and only the handles of the attempt that
        succeeded are committed. Consume `blocks` as a stream: never hold all of them.
        """

    @abstractmethod
    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Mapping[str, int] | None:
        """Make all of the batch visible. Driver; may repeat for the same batch, and must then change nothing.

        `prepared` is ordered by partition. Returns what only now turned out to be changed or left out, like
        `Prepared.counts`, None for nothing. Raises CommitFailed (nothing visible, may be tried again) or CommitUnknown.
        """

    @abstractmethod
    def abort(self, batch: int) -> None:
        """Remove whatever was prepared under this batch's names and never decided.

        Driver; on start after a crash and after a failed batch; may repeat.
        """

    def check(self) -> None:  # noqa: B027 - most sinks have nothing that could be away
        """Reach the system and log in, so that a wrong password shows before anything is started. Driver, once a run.

        Raises SinkError.
        """

    def warm(self) -> None:  # noqa: B027 - most sinks load nothing big
        """Load what the first batch needs, such as compiled code; opens no connection. Executor, at the start."""


@runtime_checkable
class CopiesBeside(Protocol):
    """Optional capability: a table that is copied anew is copied into one beside it, which then takes its place.

    `apply` gets `CreateShadow`, which makes the table beside it, empty (one that is left from before goes), and
    `SwapShadow`, which puts it in the table's place in one step: at every moment readers find one of them, whole. Rows
    of the copy come for `beside(table)`. A change that empties, drops or renames the table lets go of that one.

    A sink without it gets `TruncateTable`, or `DropTable` and `CreateTable`, and rows for the table itself.
    """

    def beside(self, table: TableId) -> TableId:
        """The table that a copy of this one goes to until it is whole. Pure; driver and executors."""


@runtime_checkable
class Announces(Protocol):
    """Optional capability: the sink tells its readers of schema changes."""

    def announce(self, batch: int, changes: Sequence[Announced]) -> None:
        """Tell of all changes that `apply` has carried out for a batch, in order with its rows. Driver.

        Between `apply` and the batch's rows, and behind all rows of the batch before. Repeated with the same batch and
        changes after a crash: what was told then is not told again. Raises SinkError.
        """


@runtime_checkable
class Remembers(Protocol):
    """Optional capability: the system itself knows which batches of a pipeline it has."""

    def last_batch(self) -> int:
        """The last batch of this pipeline that is in, -1 when none is. Driver, at the start. Raises SinkError."""


@runtime_checkable
class Confirms(Protocol):
    """Optional capability: the system can be asked whether tables are there."""

    def missing(self, tables: Sequence[TableId]) -> Sequence[TableId]:
        """Those of these sink tables that are not there, or that the user cannot see. Driver. Raises SinkError."""


@runtime_checkable
class Describes(Protocol):
    """Optional capability, for `cdc plan`: read what is there and show what would be done. Changes nothing."""

    def describe(self, table: TableId) -> TableSchema | None:
        """The sink table's actual schema in this tool's types, None when it does not exist. Driver."""

    def statements(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements `apply` would run now for these changes. Driver."""


class StoredTable(Protocol):
    """A sink table whose rows are read back. What both methods give has the same columns, of the same Arrow types."""

    def rows(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """All rows; or those with one of these keys, columns of the sink's key as `stored` gives them.

        What is committed when the call begins is in it. A batch that commits meanwhile may be in it or not, row by row.
        Raises SinkError.
        """

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What the table holds of rows that were written to it, columns of the schema in its order. Raises SinkError.

        A value that the table cannot hold is given as NULL.
        """


@runtime_checkable
class ReadsBack(Protocol):
    """Optional capability, for `cdc verify`: rows of sink tables can be read."""

    def read_back(self, table: TableId, schema: TableSchema) -> StoredTable | str | None:
        """The columns of `schema` of a table; None when there is no such table. Any process. Raises SinkError.

        A text says why its rows are not those of the source at any time, such as for a table that only grows.
        """


@runtime_checkable
class ExaminesSink(Protocol):
    """Optional capability, for `cdc doctor`."""

    def examine(self) -> Iterator[Finding]:
        """What a pipeline needs of the sink, looked at one by one; an error is a finding. Changes nothing."""
