"""The values that were used last, up to a size in all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LruCache(Generic[T]):
    """Values by the path of their file, the ones used last. Thread safe.

    Args:
        most: the sizes of all values together; the newest value stays whatever its size.
        size: of one value.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._most, self._size, self._all, self._lock = most, size, 0, threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, path: str) -> T | None:
        """The value, None when there is none."""
        with self._lock:
            if path not in self._values:
                return None
            self._values.move_to_end(path)
            return self._values[path]

    def keep(self, path: str, value: T) -> None:
        """Keep a value, and let go of those that were not used for longest."""
        with self._lock:
            self._drop(path)
            self._values[path] = value
            self._all += self._size(value)
            while self._all > self._most and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def forget(self, path: str) -> None:
        """Let go of a value."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        gone = self._values.pop(path, None)
        if gone is not None:
            self._all -= self._size(gone)
