"""`--log-format json`: all output of the process is JSON lines, including that of libraries, Java and Spark's workers.

Java and the Python workers that it starts inherit the output streams of this process. So while Java is started, both
streams are redirected into a pipe, and a thread turns its lines into log lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator

from cdc.job.log_records import LONGEST_CHARS, Lines

_DRAIN_S = 0.5


class JsonLog:
    """Turns the output of others into log lines. One per run, on the driver; does nothing unless `wanted`."""

    def __init__(self, line: Lines, *, enabled: bool) -> None:
        self._line, self._wanted = line, enabled
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def of_python(self) -> Iterator[None]:
        """While the block runs, log Python's warnings, uncaught errors of threads and all output to `sys.stderr`.

        Log records are handled in `log_records`, for both formats.
        """
        if not self._wanted:
            yield
            return
        before = warnings.showwarning, threading.excepthook
        with warnings.catch_warnings(), contextlib.redirect_stderr(_LineWriter(self._line)):
            warnings.showwarning = self._warning
            threading.excepthook = self._thread_error
            try:
                yield
            finally:
                warnings.showwarning, threading.excepthook = before
                self._drain()

    @contextlib.contextmanager
    def of_children(self) -> Iterator[None]:
        """Processes started within the block write into the pipe, for as long as they live."""
        if not self._wanted:
            yield
            return
        sys.stdout.flush()
        sys.stderr.flush()
        read_end, write_end = os.pipe()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        self._thread = threading.Thread(target=self._read, args=(read_end,), name="json-log", daemon=True)
        self._thread.start()
        try:
            for number, _ in saved:
                os.dup2(write_end, number)
            yield
        finally:
            for number, old in saved:
                os.dup2(old, number)
                os.close(old)
            os.close(write_end)

    def _read(self, read_end: int) -> None:
        with open(read_end, "rb") as pipe:
            for raw in pipe:
                text = raw.decode("utf-8", "replace").strip()
                if text:
                    self._line(text[:LONGEST_CHARS], "warning")

    def _drain(self) -> None:
        """Log the last lines of child processes, which may outlive the run for a moment."""
        if self._thread is not None:
            self._thread.join(_DRAIN_S)

    def _warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: object = None,
        line: str | None = None,
    ) -> None:
        self._line(f"{category.__name__}: {message}", "warning")

    def _thread_error(self, error: threading.ExceptHookArgs) -> None:
        text = "".join(traceback.format_exception(error.exc_type, error.exc_value, error.exc_traceback))
        self._line(text[-LONGEST_CHARS:], "error")


class _LineWriter(io.TextIOBase):
    """A text stream whose non-empty lines become log lines."""

    def __init__(self, line: Lines) -> None:
        self._line, self._rest = line, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self._rest = (self._rest + text).split("\n")
        for part in filter(str.strip, whole):
            self._line(part[:LONGEST_CHARS], "warning")
        return len(text)
