"""A cache of the most recently used values, up to a total size."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import LRUCache

T = TypeVar("T")


class LruCache(Generic[T]):
    """Cache of values by the path of their file, which drops the least recently used ones. Thread safe.

    Args:
        most: the most that the sizes of all values may add up to; a larger value is kept alone.
        size: gives the size of one value.
    """

    def __init__(self, most: int, size: Callable[[T], int]) -> None:
        self._values: LRUCache[str, T] = LRUCache(most, lambda value: min(size(value), most))
        self._lock = threading.Lock()

    def get(self, path: str) -> T | None:
        """The value of a path; None when there is none."""
        with self._lock:
            found: T | None = self._values.get(path)
            return found

    def put(self, path: str, value: T) -> None:
        """Add a value."""
        with self._lock:
            self._values[path] = value

    def forget(self, path: str) -> None:
        """Remove a value."""
        with self._lock:
            self._values.pop(path, None)
