"""Counting rows without looking at them: what `--count-only` does with a body."""

from __future__ import annotations


class RowCounter:
    """Counts delimiters in a stream of blocks, also one that lies across two of them."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._found = 0
        self._tail = b""

    def feed(self, buffer: bytearray, count: int) -> None:
        """Count in the first `count` bytes of a buffer."""
        size = len(self._delimiter)
        self._found += buffer.count(self._delimiter, 0, count)
        if size > 1:
            edge = self._tail[-(size - 1) :] + bytes(buffer[: min(size - 1, count)])
            self._found += edge.count(self._delimiter)
        self._tail = (self._tail + bytes(buffer[max(0, count - size) : count]))[-size:]

    @property
    def rows(self) -> int:
        """Rows so far; the last one needs no delimiter."""
        return self._found + (bool(self._tail) and not self._tail.endswith(self._delimiter))
