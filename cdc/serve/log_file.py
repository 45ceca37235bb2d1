"""The log of a pipeline under `cdc serve`: JSON lines in its state directory, in two files of bounded size."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from cdc.serve.control import LogLine
from cdc.state.durable import create_folder, private, state_error

FILE_NAME = "run.log"
LARGEST = 4 << 20
"""Maximum bytes of a file; a full one replaces `run.log.1`."""
_REMEMBERED = 500


class RunLog(io.TextIOBase):
    """A text stream for `cdc.job`'s reporter. Any thread. Lines that are not JSON are stored as messages.

    Lines that cannot be written, on a full disk, are still kept in memory and passed on: no run fails because of them.

    Args:
        folder: the state directory.
        worrying: called with each line above level info.
    """

    def __init__(self, folder: Path, worrying: Callable[[LogLine], None], largest: int = LARGEST) -> None:
        create_folder(folder)
        self._path, self._worrying, self._largest = folder / FILE_NAME, worrying, largest
        self._last = deque(read_log(folder, _REMEMBERED), _REMEMBERED)
        self._file = self._open()
        self._lock = threading.Lock()
        self._rest, self._lost = "", 0

    def writable(self) -> bool:
        """Return True: lines can be written."""
        return True

    def write(self, text: str) -> int:
        """Append text; a line is written to the file once it is complete."""
        with self._lock:
            if self._file.closed:  # from a thread of a run that has ended
                return len(text)
            *whole, self._rest = (self._rest + text).split("\n")
            lines = [line_of(each) for each in whole if each.strip()]
            trouble = self._write_lines([each for each in whole if each.strip()])
            self._last.extend(lines)
        for line in [*lines, *trouble]:
            if line.level != "info":
                self._worrying(line)
        return len(text)

    def _write_lines(self, texts: Sequence[str]) -> Sequence[LogLine]:
        """Write lines; return a warning when the first one is lost."""
        try:
            for text in texts:
                self._append(text)
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                return [LogLine(time.time(), "warning", f"lines of {self._path} are lost: {error.strerror}")]
        else:
            self._lost = 0
        return ()

    def _append(self, text: str) -> None:
        line = text.encode("utf-8", "replace") + b"\n"
        if self._file.tell() + len(line) > self._largest:
            os.replace(self._path, self._path.with_name(FILE_NAME + ".1"))
            full, self._file = self._file, self._open()
            full.close()
        start = self._file.tell()
        if self._file.write(line) != len(line):  # the disk is full; the next line would continue this half
            self._file.truncate(start)
            self._file.seek(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> io.FileIO:
        return open(self._path, "ab", buffering=0, opener=private)

    def last(self, number: int) -> Sequence[LogLine]:
        """Return the last lines, oldest first; at most a few hundred."""
        with self._lock:
            return list(self._last)[-number:] if number > 0 else []

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        with self._lock:
            self._file.close()


def read_log(folder: Path, number: int) -> Sequence[LogLine]:
    """Read the last lines of the log in a state directory, oldest first; none without a log. Any process.

    Raises StateError.
    """
    found: deque[LogLine] = deque(maxlen=number)
    for name in (FILE_NAME + ".1", FILE_NAME):
        found.extend(_lines(folder / name))
    return list(found)


def _lines(path: Path) -> Iterator[LogLine]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line_of(text) for text in file if text.strip())
    except FileNotFoundError:
        return
    except OSError as error:
        raise state_error(path, error, "read") from error


def line_of(text: str) -> LogLine:
    """Parse a line of the file."""
    try:
        fields: dict[str, Any] = json.loads(text)
        at_s = datetime.fromisoformat(fields.pop("time")).timestamp()
        return LogLine(at_s, str(fields.pop("level")), str(fields.pop("message", "")), fields)
    except (ValueError, KeyError, AttributeError, TypeError):
        return LogLine(0.0, "info", text.strip())


def quiet_libraries() -> None:
    """Send log records from INFO on to the logs of pipelines only; no root handler prints them. Once per process."""
    for name in ("cdc", "connectors"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger().addHandler(logging.NullHandler())
