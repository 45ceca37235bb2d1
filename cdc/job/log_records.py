"""Python's log records as lines of the run's log: what connectors tell on the driver, and what worries libraries."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from typing import Final, ParamSpec, Protocol, TypeVar

from cdc.printed import printed

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_CHARS: Final = 8_000
_OURS: Final = ("connectors", "cdc")


class Lines(Protocol):
    """A receiver of log lines; `Reporter.line`."""

    def __call__(self, message: str, level: str = "info") -> None:
        """One log line."""


_run_lines: ContextVar[Lines | None] = ContextVar("_run_lines", default=None)
"""Where the records of this thread go in a process with many runs: to the log of the run that it works for."""


@contextlib.contextmanager
def log_records(line: Lines) -> Iterator[None]:
    """While the block runs, records are lines: of connectors from INFO on, of libraries from WARNING on. Driver."""
    with _handled_by(_Handler(lambda: line)):
        yield


@contextlib.contextmanager
def log_records_of_runs() -> Iterator[None]:
    """While the block runs, records of threads within a `log_records_here` are lines of that run. Driver, once.

    One handler serves all runs: a handler that leaves a logger makes a record of another thread pass over its
    neighbour (`Logger.callHandlers` walks the list that `removeHandler` shortens).
    """
    with _handled_by(_Handler(_run_lines.get)):
        yield


@contextlib.contextmanager
def log_records_here(line: Lines) -> Iterator[None]:
    """Within a `log_records_of_runs`: records of this thread, and of those that `same_run` joins to it, are lines."""
    token = _run_lines.set(line)
    try:
        yield
    finally:
        _run_lines.reset(token)


@contextlib.contextmanager
def _handled_by(handler: logging.Handler) -> Iterator[None]:
    """While the block runs, the handler gets all records, and our loggers make them from INFO on."""
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
    """The callable, such that what it logs in another thread belongs to the run that this thread works for."""
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
    """The name of the library that a record is of, before its text; none for records of this tool."""
    return "" if record.name.partition(".")[0] in _OURS else f"{record.name}: "


class _WorkerHandler(logging.Handler):
    """Lines on standard error, as `cdc serve` writes its own: its log has those of all pipelines' workers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.pipeline = ""

    def emit(self, record: logging.LogRecord) -> None:
        now = datetime.now(UTC).strftime("%H:%M:%S")
        try:
            text = printed(f"{self.pipeline}: {_library(record)}{self.format(record)}", longest=LONGEST_CHARS)
            sys.stderr.write(f"{now} {record.levelname.lower()}: {text}\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as every handler of the standard library: a line is no reason to fail
            self.handleError(record)


_worker = _WorkerHandler()


def label_records(pipeline: str) -> None:
    """From now on records and Python's warnings of this process, one of Spark's that many pipelines share, are lines
    with the name of the pipeline that it works for."""
    _worker.pipeline = pipeline
    logging.captureWarnings(True)
    logging.getLogger().addHandler(_worker)  # once, however often
