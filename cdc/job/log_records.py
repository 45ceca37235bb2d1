"""Python's log records as lines of the run's log: what connectors tell on the driver, and what worries libraries."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from typing import Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_CHARS: Final = 8_000
_OURS: Final = ("connectors", "cdc")


class Lines(Protocol):
    """Where log lines go; `Reporter.line`."""

    def __call__(self, message: str, level: str = "info") -> None:
        """One log line."""


_run: ContextVar[object] = ContextVar("_run", default=None)
"""Which run of a process with many this thread works for."""


@contextlib.contextmanager
def log_records(line: Lines, *, only_here: bool = False) -> Iterator[None]:
    """While the block runs, records are lines: of connectors from INFO on, of libraries from WARNING on. Driver.

    `only_here`: only records of this thread and of those that `same_run` made part of the block, as there are others;
    whoever starts them sees to the levels.
    """
    run = object() if only_here else None
    token = _run.set(run)
    handler = _Handler(line, run)
    with contextlib.nullcontext() if only_here else from_info_on():
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            _run.reset(token)
            logging.getLogger().removeHandler(handler)


@contextlib.contextmanager
def from_info_on() -> Iterator[None]:
    """While the block runs, our loggers make records from INFO on; for whoever starts runs that are `only_here`."""
    ours = [logging.getLogger(name) for name in _OURS]
    levels = [logger.level for logger in ours]
    for logger in ours:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(ours, levels, strict=True):
            logger.setLevel(level)


def same_run(work: Callable[P, T]) -> Callable[P, T]:
    """The callable, such that what it logs in another thread belongs to the run that this thread works for."""
    context = copy_context()

    def called(*given: P.args, **named: P.kwargs) -> T:
        return context.copy().run(work, *given, **named)

    return called


class _Handler(logging.Handler):
    def __init__(self, line: Lines, run: object) -> None:
        super().__init__(logging.INFO)
        self._line, self._run = line, run

    def emit(self, record: logging.LogRecord) -> None:
        if self._run is not None and _run.get() is not self._run:
            return
        library = "" if record.name.partition(".")[0] in _OURS else f"{record.name}: "
        self._line(f"{library}{record.getMessage()}"[:LONGEST_CHARS], record.levelname.lower())
