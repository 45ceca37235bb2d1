"""Python's log records as lines of the run's log: what connectors tell on the driver, and what worries libraries."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Final, Protocol

LONGEST_CHARS: Final = 8_000
_OURS: Final = ("connectors", "cdc")


class Lines(Protocol):
    """Where log lines go; `Reporter.line`."""

    def __call__(self, message: str, level: str = "info") -> None:
        """One log line."""


@contextlib.contextmanager
def log_records(line: Lines) -> Iterator[None]:
    """While the block runs, records are lines: of connectors from INFO on, of libraries from WARNING on. Driver."""
    handler = _Handler(line)
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


class _Handler(logging.Handler):
    def __init__(self, line: Lines) -> None:
        super().__init__(logging.INFO)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        library = "" if record.name.partition(".")[0] in _OURS else f"{record.name}: "
        self._line(f"{library}{record.getMessage()}"[:LONGEST_CHARS], record.levelname.lower())
