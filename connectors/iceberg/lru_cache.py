"""A cache of the most recently used values, up to a total size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LruCache(Generic[T]):
    """Cache of values by the path of their file, which drops the least recently used ones. Thread safe.

    Args:
        most: the most that the sizes of all values may add up to; the newest value stays whatever its size.
        size: gives the size of one value.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size, self._all, self._lock = most, size, 0, threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, path: str) -> T | None:
        """The value of a path; None when there is none."""
        with self._lock:
            if path not in self._values:
                return None
            self._values.move_to_end(path)
            return self._values[path]

    def keep(self, path: str, value: T) -> None:
        """Add a value, and drop the least recently used ones beyond the size."""
        with self._lock:
            self._drop(path)
            self._values[path] = value
            self._all += self._size(value)
            while self._all > self._most and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def forget(self, path: str) -> None:
        """Remove a value."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        gone = self._values.pop(path, None)
        if gone is not None:
            self._all -= self._size(gone)
