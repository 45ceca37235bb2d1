r"""CSV bytes to columns of fields. All bodies of a transaction are one stream: a row may begin in one body.

`\N` is NULL, nothing is quoted, blank rows are skipped; a row with another number of fields, or that is no UTF-8, is
filtered. Rows come in windows, so that a large load is never held whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cdc_standins.starrocks.expressions import Field
from cdc_standins.starrocks.fields import nulls_marked

WINDOW_BYTES = 4 << 20


@dataclass(slots=True)
class Window:
    """Rows in columns of fields, the rows as written, and those filtered while they were read, with the reason."""

    columns: list[Sequence[Field]]
    rows: list[bytes]
    rejected: list[str] = field(default_factory=list)
    rejected_count: int = 0


class CsvReader:
    """Splits a stream into windows of rows; `width` is how many fields a row has."""

    def __init__(self, width: int, column_separator: bytes, row_delimiter: bytes, *, skip_header: int = 0) -> None:
        self._width = width
        self._separator = column_separator
        self._delimiter = row_delimiter
        self._skip = skip_header
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Window]:
        """Take bytes; yields a window when there are enough."""
        self._pending += data
        if len(self._pending) >= WINDOW_BYTES:
            end = self._pending.rfind(self._delimiter)
            if end >= 0:
                text = bytes(memoryview(self._pending)[:end])
                del self._pending[: end + len(self._delimiter)]
                yield self._window(text)

    def end_body(self) -> Iterator[Window]:
        """Nothing happens: the next body goes on where this one ended."""
        yield from ()

    def finish(self) -> Iterator[Window]:
        """The rest: the last row needs no delimiter."""
        text = bytes(self._pending)
        self._pending.clear()
        if text:
            yield self._window(text)

    def _window(self, text: bytes) -> Window:
        rows = [row for row in text.split(self._delimiter) if row]
        if self._skip:
            skipped = rows[: self._skip]
            rows = rows[self._skip :]
            self._skip -= len(skipped)
        rejected: list[str] = []
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            rows = [row for row in rows if _is_utf8(row) or _reject(rejected, "Invalid UTF-8 row", row)]
        fields = [row.split(self._separator) for row in rows]
        if any(len(found) != self._width for found in fields):
            kept = [index for index, found in enumerate(fields) if self._counted(found, rows[index], rejected)]
            fields, rows = [fields[index] for index in kept], [rows[index] for index in kept]
        columns = [nulls_marked(column) for column in zip(*fields, strict=True)] or [()] * self._width
        return Window(list(columns), rows, rejected, len(rejected))

    def _counted(self, found: Sequence[bytes], row: bytes, rejected: list[str]) -> bool:
        if len(found) == self._width:
            return True
        delimiters = f"Column delimiter: {_codes(self._separator)},Row delimiter: {_codes(self._delimiter)}."
        message = f"Value count does not match column count. Expect {self._width}, but got {len(found)}. {delimiters}"
        return _reject(rejected, message, row)


def error_line(message: str, row: bytes) -> str:
    """A line of the error log."""
    return f"Error: {message}. Row: {row.decode(errors='replace')[:1024]}"


def _reject(rejected: list[str], message: str, row: bytes) -> bool:
    rejected.append(error_line(message.rstrip("."), row))
    return False


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _codes(delimiter: bytes) -> str:
    return ",".join(str(byte) for byte in delimiter)
