"""`<state>/history.jsonl`: one line per minute for a week, with lag and rates for the plots of the web page.

    [1764144000, 1.5, 200.0, 180.5]     minute (seconds since 1970), largest lag or null, read and written per second

Written by the run, read by any process, never synced. Minutes without a run have no line. The file is rewritten when it
has twice the lines of a week, so it stays below a megabyte.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cdc.state.durable import private, replace_file, state_error
from cdc.status.model import Point, StatusDocument

FILE_NAME = "history.jsonl"
MINUTE_S = 60.0
MOST_MINUTES = 7 * 24 * 60
"""Minutes."""


class HistoryFile:
    """The writer. Driver, one thread.

    Args:
        root: the state directory.
        most: maximum number of minutes kept.
    """

    def __init__(self, root: Path, most: int = MOST_MINUTES) -> None:
        self._path, self._most = root / FILE_NAME, most
        self._begin_s: float | None = None
        self._read = self._written = 0
        self._lag_s: float | None = None
        self._lines = -1

    def add(self, status: StatusDocument, now_s: float) -> None:
        """Add the current document; a complete minute becomes a line. Raises StateError when it cannot be written."""
        lag = status.lag.seconds
        if lag is not None:
            self._lag_s = lag if self._lag_s is None else max(lag, self._lag_s)
        if self._begin_s is None or now_s < self._begin_s:  # the clock was set back
            self._begin_s, self._read, self._written = now_s, status.read, status.totals.rows
        elif now_s - self._begin_s >= MINUTE_S:
            length_s = now_s - self._begin_s
            read, written = status.read - self._read, status.totals.rows - self._written
            line = [round(self._begin_s), self._lag_s, round(read / length_s, 1), round(written / length_s, 1)]
            self._begin_s, self._read, self._written, self._lag_s = now_s, status.read, status.totals.rows, lag
            self._append(json.dumps(line))

    def _append(self, line: str) -> None:
        try:
            if self._lines < 0:
                self._lines = sum(1 for _ in _lines(self._path))
            if self._lines >= 2 * self._most:
                self._shorten()
            with open(self._path, "a", encoding="utf-8", opener=private) as file:
                file.write(line + "\n")
            self._lines += 1
        except OSError as error:
            raise state_error(self._path, error) from error

    def _shorten(self) -> None:
        retained = deque(_lines(self._path), self._most)
        replace_file(self._path, "".join(retained).encode())
        self._lines = len(retained)


def read_history(root: Path, since_s: float) -> Sequence[Point]:
    """Read the minutes of a state directory from a time on, oldest first; none without a file. Skips lines truncated by
    a crash. Raises StateError."""
    path = root / FILE_NAME
    try:
        return [point for line in _lines(path) if (point := _point(line)) is not None and point.at_s >= since_s]
    except OSError as error:
        raise state_error(path, error, "read") from error


def downsample(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Reduce the points to at most `most`: each has the largest lag and the mean rates of neighbouring points."""
    if len(points) <= most:
        return points
    size = -(-len(points) // most)
    return [_mean_point(points[start : start + size]) for start in range(0, len(points), size)]


def _mean_point(points: Sequence[Point]) -> Point:
    lags = [point.lag_s for point in points if point.lag_s is not None]
    read, written = (_mean(point.read_per_s for point in points), _mean(point.written_per_s for point in points))
    return Point(points[0].at_s, max(lags, default=None), read, written)


def _mean(numbers: Iterable[float]) -> float:
    found = list(numbers)
    return round(sum(found) / len(found), 1)


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file
    except FileNotFoundError:
        return


def _point(line: str) -> Point | None:
    try:
        at_s, lag_s, read, written = json.loads(line)
        return Point(float(at_s), None if lag_s is None else float(lag_s), float(read), float(written))
    except (ValueError, TypeError):
        return None
