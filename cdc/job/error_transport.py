"""Carries CdcErrors through Spark: exceptions of other processes arrive as text only, so the text contains JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cdc.errors import CdcError, EngineError, WorkerLost, from_json, out_of_memory

_MARK = "cdc-error:"
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*?\}):end-cdc-error")

_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)

_LOST = re.compile(
    r"failed to connect back|Python worker exited unexpectedly|ExecutorLostFailure|[Ee]xecutor \S* ?lost|worker lost"
    r"|java\.io\.EOFException|java\.net\.SocketException|Broken pipe|Connection reset"
    r"|Job \d+ cancelled as part of cancellation of all jobs"
)
"""Spark's messages for one of its processes that has died, or did not start within ten seconds."""

_INTERRUPTED = re.compile(r"java\.lang\.InterruptedException|Job \d+ cancelled part of cancelled job group")
"""Spark's messages for a batch whose query was stopped while it ran: the stop came just before the batch."""

_NO_CODE = re.compile(r"ModuleNotFoundError: No module named '((?:cdc|connectors)\b[\w.]*)'")
"""An executor lacks this package, or has another version of it."""

_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*)"(?:[^\n]*error=\d+, ([^\n]*))?')
"""An executor's machine does not have the configured Python."""

_NO_SPACE = re.compile(r"[Ee]xception: ((?:(?!xception: )[^\n])*(?:No space left on device|Disk quota exceeded)\)?)")
"""An exception for a full disk, Java's or one that Spark wraps around it, with the path where Java knows it."""

_NO_MEMORY = re.compile(r"(?:\w*MemoryError|java\.lang\.OutOfMemoryError|std::bad_alloc)\b[^\n]*")
"""Python's exceptions for memory that the system refuses, NumPy's and Arrow's included; Java's and C++'s."""

_MACHINE = re.compile(r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \((\S+) executor (?!driver)")
"""The machine of the failed task, in Spark's message about the stage."""

_CALLED = re.compile(r"An error occurred while calling [^\n]*\n: ")
"""Py4J's text before the Java exception."""

_HINT = "CDC_DEBUG=1 shows the stack trace; the next run continues after the last committed batch"

_TRACE = "Traceback (most recent call last)"
"""The beginning of a Python traceback: the process was alive to raise the exception."""

P = ParamSpec("P")
T = TypeVar("T")


class CrossingError(Exception):
    """Carries a CdcError through Spark; `recover` finds it in the text that Spark wraps around it."""

    def __init__(self, error: CdcError) -> None:
        super().__init__(f"{_MARK}{error.to_json()}:end-cdc-error")
        self.error = error


def crossing(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls in another process, so that `recover` gets its CdcErrors back."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except CdcError as error:
            raise CrossingError(error) from error

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


def briefly(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that Spark's JVM calls in this process: a CdcError is passed on without its cause.

    Spark searches the text for its own exceptions with a regular expression that recurses per character. A Java stack
    trace in the text ends the query's thread with a StackOverflowError and prints a thousand lines. With CDC_DEBUG=1
    causes are kept.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except CdcError as error:
            cause = error if os.environ.get("CDC_DEBUG") == "1" else None
            raise CrossingError(error) from cause

    return call


def recover(error: BaseException) -> CdcError:
    """The CdcError inside an exception of Spark; else WorkerLost if one of its processes has died or a batch was
    interrupted, else an EngineError with Spark's first line."""
    if isinstance(error, CdcError):
        return error
    text = str(error)
    match = _MARKED.search(text)
    if match:
        return from_json(match[1])
    raised = _RAISED.findall(text)
    lines = [line.strip() for line in _CALLED.sub("", text).splitlines() if line.strip()]
    machine = _MACHINE.search(text + _java_traces(error))
    where = f"machine {machine[1]}" if machine is not None else ""
    program = _NO_PROGRAM.search(text + _java_traces(error))
    if program is not None:
        hint = "install cdc on every machine, under the same path as here (docs/cluster.md)"
        why = f" ({program[2].strip()})" if program[2] else ""
        return EngineError(f"there is no Python {program[1]} for its workers{why}", where=where, hint=hint)
    memory = _NO_MEMORY.search(text)
    if memory is not None:
        return out_of_memory(memory[0], where)
    full = _NO_SPACE.search(text)
    if full is not None:
        hint = "free some space for the state directory and for temporary files, and start again; nothing was lost"
        return EngineError(f"Spark stopped: {full[1]}", where=where, hint=hint)
    lost = None if _TRACE in text else _LOST.search(text + _java_traces(error))
    missing = _NO_CODE.search(text)
    if missing is not None:
        hint = "install the same version of cdc on every machine of the cluster (docs/cluster.md)"
        message = f"the Python of an executor has no {missing[1]}, or another version of it"
        return EngineError(message, where=where, hint=hint)
    if lost is None and _TRACE not in text and _INTERRUPTED.search(text):
        return WorkerLost("the query was stopped while its batch began", where=where, hint=_HINT)
    if lost is not None:
        return WorkerLost(f"a process of Spark's has ended, or did not come up: {lost[0]}", where=where, hint=_HINT)
    return EngineError(
        f"Spark stopped: {(raised[-1:] or lines or [type(error).__name__])[0][:500]}", where=where, hint=_HINT
    )


def _java_traces(error: BaseException) -> str:
    """The Java stack traces of an exception of PySpark's; a process that has died may appear only there."""
    traces = ""
    at: BaseException | None = error
    while at is not None:
        traces += str(getattr(at, "_stackTrace", None) or "")
        at = getattr(at, "_cause", None)
    return traces
