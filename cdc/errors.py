"""All errors that a user can get, each with a message, a location and the next step.

    CdcError
    |-- SpecError            exit 2   the pipeline file is wrong (carries every Problem at once)
    |-- PatternTimeout       exit 2   matching a table pattern takes too long (backtracking)
    |-- EditRefused          exit 2   an edit of the pipeline file is incompatible with its state
    |-- SourceError          exit 3   the source refused a request, or its log cannot be read
    |   |-- TableUnknown              the pipeline has no table of that name
    |   |-- SourceUnavailable         no connection; retryable
    |   |-- PositionLost              the log no longer has the requested position
    |   |-- CorruptLog                bytes that cannot be a change log: checksum, truncation, bad length
    |   |-- UnsupportedChange         the log is valid but has an event that this tool cannot interpret safely
    |   `-- SchemaUnknown             rows whose table definition is unknown or does not match them
    |-- SinkError            exit 4   the sink refused a request
    |   |-- SinkUnavailable           no connection; retryable
    |   |-- CommitFailed              the sink rejected the commit: nothing is visible; retryable
    |   |-- CommitUnknown             no response to a commit: query its state before anything else
    |   |-- LoadsLost                 the sink lost decided rows permanently; names their tables
    |   `-- ChangeRefused             a schema change that the sink cannot apply
    |-- TransformError       exit 5   an expression of a transform rule fails on a value
    |-- ModelUnavailable     exit 5   an AI model used by a transform rule does not respond; retryable
    `-- EngineError          exit 5   Spark, Java or the state directory
        |-- WorkerLost                a process that planned or read a batch has died; retryable
        |-- StateError                the state directory is locked, unreadable, full or from another pipeline
        |   `-- StateUnavailable        the object store that holds it does not respond; retryable
        |-- PipelineUnknown           `cdc serve` has no pipeline of that name
        |-- NotNow                    the pipeline's current state does not allow the request
        `-- BadRequest                a malformed request to `cdc serve`

Errors cross processes (executor -> driver, stream reader -> driver) as JSON: `to_json`, `from_json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class CdcError(Exception):
    """Base class of all errors of this tool.

    Args:
        message: what went wrong, one sentence, without secrets.
        where: the object concerned: a table, a column, a binlog position, a file; may be empty.
        hint: the user's next step; may be empty.

    `waited_s` is for how many seconds this process has retried already what failed.
    """

    exit_code: ClassVar[int] = 5
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint
        self.waited_s = 0.0

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text

    @property
    def class_name(self) -> str:
        """Name of the documented error class; for a connector's own subclass, which stays in its process, its base."""
        return next(each.__name__ for each in type(self).__mro__ if each is SpecError or each in _BY_NAME.values())

    def to_json(self) -> str:
        """Serialize to one line of JSON, from which `from_json` restores an error of this class in another process."""
        fields = {"error": self.class_name, "message": self.message, "where": self.where, "hint": self.hint}
        return json.dumps(fields | {"more": self.extra_arguments()})

    def extra_arguments(self) -> dict[str, Any]:
        """Return the additional constructor arguments of a subclass by name, as JSON values."""
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        return (from_json, (self.to_json(),))


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a pipeline file. `line` and `column` count from 1; `path` is dotted (`sink.fenodes`)."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}:{self.column}: "
        text = f"{self.path}: {self.message}" if self.path else self.message
        return location + (f"{text} ({self.hint})" if self.hint else text)


class SpecError(CdcError):
    """The pipeline file is invalid; `problems` has every mistake found, in file order."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)

    def extra_arguments(self) -> dict[str, Any]:
        """The problems."""
        return {"problems": [asdict(problem) for problem in self.problems]}

    def __reduce__(self) -> tuple[object, ...]:
        return (SpecError, (self.problems,))


class PatternTimeout(CdcError):
    """Matching a table pattern with a name takes too long: it has nested repetitions."""

    exit_code = 2


class EditRefused(CdcError):
    """An edit of the pipeline file since the last run is incompatible with the state directory.

    Raised before anything is planned or decided: the pipeline continues once the edit is undone.
    """

    exit_code = 2


class SourceError(CdcError):
    """The source refused a request, or its change log cannot be read."""

    exit_code = 3


class TableUnknown(SourceError):
    """The pipeline has no table of that name, or no longer captures it."""


class SourceUnavailable(SourceError):
    """The connection to the source failed or was lost; retrying later is safe."""

    retryable = True


class PositionLost(SourceError):
    """The source's log no longer has the requested position (purged or reset)."""


class CorruptLog(SourceError):
    """The bytes read are not a valid change log: wrong checksum, truncation, impossible length."""


class UnsupportedChange(SourceError):
    """The log is valid but has an event that this tool cannot interpret safely."""


class SchemaUnknown(SourceError):
    """Rows of a table whose definition at that position is unknown or does not match them."""


class SinkError(CdcError):
    """The sink refused a request."""

    exit_code = 4


class SinkUnavailable(SinkError):
    """The connection to the sink failed or was lost; retrying later is safe."""

    retryable = True


class CommitFailed(SinkError):
    """The sink rejected a commit: nothing of it is visible."""

    retryable = True


class CommitUnknown(SinkError):
    """No response to a commit: query its state by name before anything else."""


class LoadsLost(SinkError):
    """The sink lost prepared rows of a decided batch; the rest of the batch is committed.

    Attributes:
        tables: by sink table (`db.table`), the first partition of the batch whose rows may be prepared again: from it
            on, no rows are in the sink, or they may be written again, as they are upserts.
        uncertain: sink tables that may or may not have the rows, and where writing them again could duplicate them.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        tables: Mapping[str, int] | None = None,
        uncertain: Sequence[str] = (),
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.tables, self.uncertain = dict(tables or {}), tuple(uncertain)

    def extra_arguments(self) -> dict[str, Any]:
        """The tables."""
        return {"tables": self.tables, "uncertain": self.uncertain}


class ChangeRefused(SinkError):
    """A schema change that the sink cannot apply.

    `resnapshot_helps`: the sink could create the wanted table, but cannot convert the existing one. The engine adds
    whether a re-snapshot will do it; the hint names other remedies.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "", resnapshot_helps: bool = False) -> None:
        super().__init__(message, where=where, hint=hint)
        self.resnapshot_helps = resnapshot_helps

    def extra_arguments(self) -> dict[str, Any]:
        """Whether a re-snapshot helps."""
        return {"resnapshot_helps": self.resnapshot_helps}


class TransformError(CdcError):
    """An expression of a transform rule failed on a value; names table, key, column and expression."""


class ModelUnavailable(CdcError):
    """An AI model used by a transform rule does not respond; retrying later is safe."""

    retryable = True


class EngineError(CdcError):
    """Spark, Java or the state directory failed."""


class WorkerLost(EngineError):
    """A process that planned or read a batch died (killed, out of memory, machine lost) or was interrupted.

    The batch can be repeated.
    """

    retryable = True


def out_of_memory(text: str, where: str = "") -> EngineError:
    """Return the error for a MemoryError of any process, or Java's OutOfMemoryError."""
    hint = (
        "give it more memory (`ulimit -v`, the container's limit; Java: spark.driver.memory), or lower max-batch-bytes "
        "of the source; the next run continues after the last committed batch"
    )
    return EngineError(f"out of memory: {text or 'MemoryError'}"[:500], where=where, hint=hint)


class StateError(EngineError):
    """The state directory is locked, unreadable, full, or belongs to another pipeline."""


class StateUnavailable(StateError):
    """The object store that holds the state does not respond or reports a transient error."""

    retryable = True


class PipelineUnknown(EngineError):
    """There is no pipeline of that name."""


class NotNow(EngineError):
    """A request that the pipeline's current state does not allow."""


class BadRequest(EngineError):
    """A malformed request to `cdc serve`: no JSON, an unknown parameter, a value out of range."""


_BY_NAME: dict[str, type[CdcError]] = {
    cls.__name__: cls
    for cls in (
        CdcError, PatternTimeout, EditRefused,
        SourceError, TableUnknown, SourceUnavailable, PositionLost, CorruptLog, UnsupportedChange, SchemaUnknown,
        SinkError, SinkUnavailable, CommitFailed, CommitUnknown, LoadsLost, ChangeRefused, TransformError,
        ModelUnavailable, EngineError, StateError, StateUnavailable, WorkerLost, PipelineUnknown, NotNow, BadRequest,
    )
}  # fmt: skip


def from_json(text: str) -> CdcError:
    """Restore the error that `CdcError.to_json` wrote; an unknown name becomes a plain `EngineError`."""
    fields = json.loads(text)
    if fields["error"] == SpecError.__name__:
        return SpecError([Problem(**problem) for problem in fields["more"]["problems"]])
    kind = _BY_NAME.get(fields["error"], EngineError)
    extra_arguments = fields.get("more", {}) if kind is not EngineError else {}
    return kind(fields["message"], where=fields["where"], hint=fields["hint"], **extra_arguments)


def first_of(items: Sequence[object], most: int = 5, between: str = ", ") -> str:
    """Format the first few items and the number of others: `a, b and 3 more`."""
    shown = between.join(map(str, items[:most]))
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
