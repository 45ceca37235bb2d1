"""The status document of a run, `status.json`: frozen values and their JSON.

Times ending in `_s` are seconds since 1970 (UTC), durations ending in `_s` are seconds. A change of a field's meaning
increments VERSION; an added field does not, as readers ignore unknown fields.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import Field
from pydantic_core import PydanticSerializationError

from cdc.errors import StateError
from cdc.printable import printable_json
from cdc.progress import ChangeCounts

VERSION = 1
"""Version of the document's format."""

State = Literal["starting", "running", "stopping", "ended", "failed"]
PHASES = ("schema", "dispatch", "read", "decode", "transform", "prepare", "decide", "commit")
"""Phases of a batch, in order. `schema`: applying schema changes to the sink; `dispatch`: the time of the batch's tasks
outside the slowest one; `read` to `prepare`: that task; `decide` and `commit`: the driver."""


@dataclass(frozen=True)
class Copy:
    """The progress of the copy of a source table; see `cdc.source.TableProgress`."""

    state: str
    rows: int = 0
    estimated_rows: int = 0
    chunks: int = 0
    planned_chunks: int = 0
    rows_per_s: float = 0.0
    eta_s: float | None = None
    why: str = ""
    started_s: float = 0.0
    updated_s: float = 0.0


@dataclass(frozen=True)
class TableStatus:
    """A table of the sink or the source: what this run has written to it or read from it."""

    table: str
    written: ChangeCounts = ChangeCounts()
    read: int = 0
    written_per_s: float = 0.0
    read_per_s: float = 0.0
    schema_changes: int = 0
    last_change_s: float | None = None
    copy: Copy | None = None


@dataclass(frozen=True)
class Batch:
    """One committed batch. `phases` has the seconds of some of PHASES."""

    batch: int
    committed_s: float
    duration_s: float
    rows: int
    tables: int
    lag_s: float | None = None
    phases: dict[str, float] = Field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """The run at one moment, for plots: lag in seconds, changes read and written per second."""

    at_s: float
    lag_s: float | None
    read_per_s: float
    written_per_s: float


@dataclass(frozen=True)
class SchemaEvent:
    """A schema change of a sink table with its outcome: `applied`, `held-back`, `refused` or `failed`."""

    at_s: float
    batch: int
    table: str
    change: str
    outcome: str


@dataclass(frozen=True)
class SchemaTotals:
    """Schema changes of this run by outcome. `behavior` is the pipeline's policy."""

    behavior: str = ""
    applied: int = 0
    held_back: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Error:
    """An error that stopped a run, or made it restart a batch."""

    at_s: float
    kind: str
    message: str
    where: str = ""
    hint: str = ""
    retryable: bool = False


@dataclass(frozen=True)
class SourceNotice:
    """A notice of the source for people."""

    at_s: float
    text: str


@dataclass(frozen=True)
class SinkLag:
    """The lag of the sink behind the source; None where unknown.

    Attributes:
        seconds: age of the oldest change that is not in the sink, as far as known; 0 when there is none.
        bytes, transactions: from the last batch to the end of the source's log.
        last_batch_s: age of the last batch's newest change when the batch was committed.
    """

    seconds: float | None = None
    bytes: int | None = None
    transactions: int | None = None
    last_batch_s: float | None = None


@dataclass(frozen=True)
class StatusDocument:
    """The whole document. Figures of `this run` start at 0 with each run; rings and `restarts` continue across runs.

    Attributes:
        pipeline: the id of the state directory. name: the pipeline's name.
        updated_s: when it last changed.
        position: the source's offset after the last committed batch.
        counts: values and rows changed or skipped on purpose in this run, by reason.
        dead_letters: rows written to dead letters in this run.
        restarts: starts after a failure or a crash, and restarts of the query after a lost process.
        batches_total, totals, tables: this run. batches, points, schema_changes, errors, notices: rings, oldest first.
        note: what the run waits for.
        paused, resumed: source tables that are skipped, until they are resumed or until their copy begins.
    """

    pipeline: str
    name: str
    source: str
    sink: str
    state: State
    pid: int
    host: str
    started_s: float
    updated_s: float
    version: int = VERSION
    bounded: bool = False
    file: str = ""
    lag: SinkLag = SinkLag()
    position: dict[str, Any] | None = None
    running_batch: int | None = None
    batches_total: int = 0
    totals: ChangeCounts = ChangeCounts()
    read: int = 0
    read_per_s: float = 0.0
    written_per_s: float = 0.0
    phases: dict[str, float] = Field(default_factory=dict)
    schema: SchemaTotals = SchemaTotals()
    counts: dict[str, int] = Field(default_factory=dict)
    dead_letters: int = 0
    runs: int = 0
    restarts: int = 0
    note: str = ""
    paused: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    tables: tuple[TableStatus, ...] = ()
    batches: tuple[Batch, ...] = ()
    points: tuple[Point, ...] = ()
    schema_changes: tuple[SchemaEvent, ...] = ()
    errors: tuple[Error, ...] = ()
    notices: tuple[SourceNotice, ...] = ()


@dataclass(frozen=True)
class _Versioned:
    version: int


@cache
def _adapter() -> TypeAdapter[StatusDocument]:
    return TypeAdapter(StatusDocument)


@cache
def _version() -> TypeAdapter[_Versioned]:
    return TypeAdapter(_Versioned)


def to_json(status: StatusDocument) -> bytes:
    """The document as JSON, one line."""
    try:
        return _adapter().dump_json(status)
    except PydanticSerializationError:  # names of files may have bytes that are not UTF-8
        return json.dumps(printable_json(to_object(status))).encode()


def to_object(status: StatusDocument) -> dict[str, Any]:
    """The document as a JSON object."""
    return dict(_adapter().dump_python(status, mode="json"))


def from_json(data: bytes, where: str = "") -> StatusDocument:
    """Read the document that `to_json` wrote. Raises StateError when it is damaged or of a newer version."""
    hint = "remove the file: it is only informational, and the next run rewrites it"
    try:
        version = _version().validate_json(data).version
        if version > VERSION:
            raise StateError(
                f"has version {version}, this version of cdc reads up to {VERSION}",
                where=where,
                hint="use the version of cdc that the pipeline runs with",
            )
        return _adapter().validate_json(data)
    except ValidationError as error:
        raise StateError(f"cannot be read: {str(error)[:200]}", where=where, hint=hint) from error
