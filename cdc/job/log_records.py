"""Writes Python's log records to the run's log: of connectors on the driver, and warnings of libraries."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from typing import Final, ParamSpec, Protocol, TypeVar

from cdc.printable import printable

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_CHARS: Final = 8_000
_OURS: Final = ("connectors", "cdc")


class Lines(Protocol):
    """A receiver of log lines; `Reporter.line`."""

    def __call__(self, message: str, level: str = "info") -> None:
        """Write one log line."""


_run_lines: ContextVar[Lines | None] = ContextVar("_run_lines", default=None)
"""The log of the run that this thread works for, in a process with several runs."""


@contextlib.contextmanager
def log_records(line: Lines) -> Iterator[None]:
    """While the block runs, log records: of this package from INFO on, of libraries from WARNING on. Driver."""
    with _handled_by(_Handler(lambda: line)):
        yield


@contextlib.contextmanager
def log_records_of_runs() -> Iterator[None]:
    """While the block runs, records of threads within a `log_records_here` go to the log of that run. Driver, once.

    One handler serves all runs: removing a handler from a logger can make a concurrent record skip another handler
    (`Logger.callHandlers` iterates over the list that `removeHandler` shortens).
    """
    with _handled_by(_Handler(_run_lines.get)):
        yield


@contextlib.contextmanager
def log_records_here(line: Lines) -> Iterator[None]:
    """Within `log_records_of_runs`: log the records of this thread and of threads started through `same_run`."""
    token = _run_lines.set(line)
    try:
        yield
    finally:
        _run_lines.reset(token)


@contextlib.contextmanager
def _handled_by(handler: logging.Handler) -> Iterator[None]:
    """While the block runs, the handler gets all records; loggers of this package emit them from INFO on."""
    ours = [logging.getLogger(name) for name in _OURS]
    levels = [logger.level for logger in ours]
    for logger in ours:
        logger.setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, level in zip(ours, levels, strict=True):
            logger.setLevel(level)


def same_run(work: Callable[P, T]) -> Callable[P, T]:
    """Wrap a callable so that its log records in another thread go to the log of this thread's run."""
    context = copy_context()

    def called(*given: P.args, **named: P.kwargs) -> T:
        return context.copy().run(work, *given, **named)

    return called


class _Handler(logging.Handler):
    def __init__(self, lines: Callable[[], Lines | None]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        line = self._lines()
        if line is None:
            return
        line(f"{_library(record)}{record.getMessage()}"[:LONGEST_CHARS], record.levelname.lower())


def _library(record: logging.LogRecord) -> str:
    """The prefix with the library's name of a record; empty for records of this package."""
    return "" if record.name.partition(".")[0] in _OURS else f"{record.name}: "


class _WorkerHandler(logging.Handler):
    """Writes lines to standard error in the format of `cdc serve`, whose log has the lines of all workers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.pipeline = ""

    def emit(self, record: logging.LogRecord) -> None:
        now = datetime.now(UTC).strftime("%H:%M:%S")
        try:
            text = printable(f"{self.pipeline}: {_library(record)}{self.format(record)}", longest=LONGEST_CHARS)
            sys.stderr.write(f"{now} {record.levelname.lower()}: {text}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as all handlers of the standard library: logging must not fail the task
            self.handleError(record)


_worker = _WorkerHandler()


def label_records(pipeline: str) -> None:
    """From now on log the records and warnings of this process, a Spark worker that many pipelines share, with the
    name of the pipeline it works for."""
    _worker.pipeline = pipeline
    logging.captureWarnings(True)
    logging.getLogger().addHandler(_worker)  # no effect if it is added already
