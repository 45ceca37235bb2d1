"""Every error a user can meet, each with what happened, where, and the next step.

    CdcError
    |-- SpecError            exit 2   the pipeline file is wrong (carries every Problem at once)
    |-- PatternTimeout       exit 2   a table pattern that goes back and forth without end
    |-- EditRefused          exit 2   the pipeline file was edited in a way that its state cannot follow
    |-- SourceError          exit 3   the source refused, or its log cannot be read
    |   |-- TableUnknown              the pipeline has no table of that name
    |   |-- SourceUnavailable         no connection; retryable
    |   |-- PositionLost              the log no longer holds the position asked for
    |   |-- CorruptLog                bytes that cannot be a change log: checksum, truncation, bad length
    |   |-- UnsupportedChange         the log is sound but holds something this tool refuses to guess at
    |   `-- SchemaUnknown             rows whose table definition is not known, or does not fit them
    |-- SinkError            exit 4   the sink refused
    |   |-- SinkUnavailable           no connection; retryable
    |   |-- CommitFailed              the sink said no: nothing is visible; retryable
    |   |-- CommitUnknown             no answer came: ask for the state of that name first
    |   |-- LoadsLost                 the sink gave up rows that were decided, for good; names their tables
    |   `-- ChangeRefused             a schema change that the sink cannot carry out
    |-- TransformError       exit 5   a value that an expression of a transform rule fails on
    |-- ModelUnavailable     exit 5   an AI model that a transform rule asks gives no answer; retryable
    `-- EngineError          exit 5   Spark, Java or the state directory
        |-- WorkerLost                a process that planned or read a batch has ended; retryable
        |-- StateError                the state directory is locked, unreadable, full or from another pipeline
        |   `-- StateUnavailable        the object store that holds it does not answer; retryable
        |-- PipelineUnknown           `cdc serve` has no pipeline of that name
        |-- NotNow                    what was asked cannot be done in the state that the pipeline is in
        `-- BadRequest                a request to `cdc serve` that is malformed

Errors cross processes (executor -> driver, stream reader -> driver) as JSON: `to_json`, `from_json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class CdcError(Exception):
    """Base of all errors of this tool.

    Args:
        message: what went wrong, one sentence, never a secret.
        where: the object concerned: a table, a column, a binlog position, a file; may be empty.
        hint: the next step for the user; may be empty.
    """

    exit_code: ClassVar[int] = 5
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text

    @property
    def class_name(self) -> str:
        """The class that the documentation has: of one of a connector's own, which stays in its process, the base."""
        return next(each.__name__ for each in type(self).__mro__ if each is SpecError or each in _BY_NAME.values())

    def to_json(self) -> str:
        """One line of JSON from which `from_json` makes the error in another process, as that class."""
        own = {"error": self.class_name, "message": self.message, "where": self.where, "hint": self.hint}
        return json.dumps(own | {"more": self.extra_arguments()})

    def extra_arguments(self) -> dict[str, Any]:
        """Further arguments of the error by name, JSON values: what its class has besides."""
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        return (from_json, (self.to_json(),))


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a pipeline file. `line` and `column` count from 1; `path` is dotted (`sink.fenodes`)."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: "
        text = f"{self.path}: {self.message}" if self.path else self.message
        return place + (f"{text} ({self.hint})" if self.hint else text)


class SpecError(CdcError):
    """The pipeline file is wrong; `problems` holds every mistake found, in file order."""

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
    """A table pattern takes too long to compare with a name: it has repetitions of repetitions."""

    exit_code = 2


class EditRefused(CdcError):
    """The pipeline file was edited since the run before in a way that the state directory cannot follow.

    Raised before anything is planned or decided: with the edit taken back the pipeline goes on.
    """

    exit_code = 2


class SourceError(CdcError):
    """The source refused, or its change log cannot be read."""

    exit_code = 3


class TableUnknown(SourceError):
    """The pipeline has no table of that name, or follows it no further."""


class SourceUnavailable(SourceError):
    """No connection to the source, or it was cut; trying again later is safe."""

    retryable = True


class PositionLost(SourceError):
    """The source no longer holds the log position asked for (purged or reset)."""


class CorruptLog(SourceError):
    """The bytes read cannot be a change log: wrong checksum, truncation, impossible length."""


class UnsupportedChange(SourceError):
    """The log is sound but holds an event that this tool refuses to guess at."""


class SchemaUnknown(SourceError):
    """Rows of a table whose definition is not known at that position, or does not fit them."""


class SinkError(CdcError):
    """The sink refused."""

    exit_code = 4


class SinkUnavailable(SinkError):
    """No connection to the sink, or it was cut; trying again later is safe."""

    retryable = True


class CommitFailed(SinkError):
    """The sink said no to a commit: nothing of it is visible."""

    retryable = True


class CommitUnknown(SinkError):
    """No answer to a commit: the state of its name has to be asked for before anything else."""


class LoadsLost(SinkError):
    """The sink gave up prepared rows of a decided batch; all else of the batch is committed.

    Attributes:
        tables: by sink table (`db.table`) the first partition of the batch whose rows may be prepared again: from it on
            nothing is in the sink, or what is there does not matter, as the rows replace themselves.
        uncertain: sink tables of which the sink no longer knows whether rows are in, and which would get them twice.
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
    """A schema change that the sink cannot carry out.

    `curable`: it can have the table as it is to be, but not make it of the one that is there. The engine says whether
    a re-snapshot does that; the hint is of what else helps.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "", curable: bool = False) -> None:
        super().__init__(message, where=where, hint=hint)
        self.curable = curable

    def extra_arguments(self) -> dict[str, Any]:
        """Whether it is curable."""
        return {"curable": self.curable}


class TransformError(CdcError):
    """A value that makes an expression of a transform rule fail: table, key, column and expression are named."""


class ModelUnavailable(CdcError):
    """An AI model that a transform rule asks gives no answer; asking again later is safe."""

    retryable = True


class EngineError(CdcError):
    """Spark, Java or the state directory failed."""


class WorkerLost(EngineError):
    """A process that planned or read a batch has ended: killed, out of memory, its machine gone. The batch is whole."""

    retryable = True


class StateError(EngineError):
    """The state directory is locked, unreadable, full, or belongs to another pipeline."""


class StateUnavailable(StateError):
    """The object store that holds the state does not answer, or says that it cannot now. It may soon."""

    retryable = True


class PipelineUnknown(EngineError):
    """There is no pipeline of that name."""


class NotNow(EngineError):
    """A request that the pipeline's present state does not allow."""


class BadRequest(EngineError):
    """A request to `cdc serve` that is malformed: no JSON, an unknown parameter, a value out of range."""


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
    """The error that `CdcError.to_json` wrote; an unknown name becomes a plain `EngineError`."""
    fields = json.loads(text)
    if fields["error"] == SpecError.__name__:
        return SpecError([Problem(**problem) for problem in fields["more"]["problems"]])
    kind = _BY_NAME.get(fields["error"], EngineError)
    extra_arguments = fields.get("more", {}) if kind is not EngineError else {}
    return kind(fields["message"], where=fields["where"], hint=fields["hint"], **extra_arguments)


def first_of(items: Sequence[object], most: int = 5, between: str = ", ") -> str:
    """The first few items, and how many more there are: `a, b and 3 more`."""
    shown = between.join(map(str, items[:most]))
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown
