r"""The text of a load, as far as our sinks write it: fields and rows end with one byte each, nothing is quoted.

`\N` is NULL, blank rows are skipped; a row with another number of fields, or that is not UTF-8, is filtered. Rows
come in windows, so that a large load is never held whole. All else that the servers read is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

NULL = b"\\N"
WINDOW_BYTES = 4 << 20
BOM = b"\xef\xbb\xbf"

Field = bytes | None
Fields = Sequence[Field]


@dataclass(slots=True)
class Window:
    """Rows in columns of fields, the rows as written, and a line for each that was filtered."""

    columns: list[Fields]
    rows: list[bytes]
    rejected: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The bytes that end fields and rows, and how the server says what is wrong with a row.

    Attributes:
        not_utf8, mismatch: a line for a row; `mismatch` gets the numbers of fields wanted and found, too.
        bom_rows: a byte order mark at the start of any block of so many rows is taken off; 0 for none.
    """

    separator: bytes
    delimiter: bytes
    not_utf8: Callable[[bytes], str]
    mismatch: Callable[[int, int, bytes], str]
    bom_rows: int = 0


class TextReader:
    """Splits a stream into windows of rows; `width` is how many fields a row has."""

    def __init__(self, form: TextFormat, width: int) -> None:
        self._form, self._width = form, width
        self._pending = bytearray()
        self._seen = 0

    def feed(self, data: bytes | memoryview) -> Iterator[Window]:
        """Take bytes; yields a window when there are enough."""
        self._pending += data
        if len(self._pending) >= WINDOW_BYTES:
            end = self._pending.rfind(self._form.delimiter)
            if end >= 0:
                text = bytes(memoryview(self._pending)[:end])
                del self._pending[: end + 1]
                yield self._window(text)

    def finish(self) -> Iterator[Window]:
        """The rest: the last row needs no delimiter."""
        text = bytes(self._pending)
        self._pending.clear()
        if text:
            yield self._window(text)

    def _window(self, text: bytes) -> Window:
        form = self._form
        rows = [row for row in text.split(form.delimiter) if row]
        if form.bom_rows and BOM in text:
            for index in range(-self._seen % form.bom_rows, len(rows), form.bom_rows):
                rows[index] = rows[index].removeprefix(BOM)
        self._seen += len(rows)
        rejected: list[str] = []
        if not _is_utf8(text):
            rejected += [form.not_utf8(row) for row in rows if not _is_utf8(row)]
            rows = [row for row in rows if _is_utf8(row)]
        fields = [row.split(form.separator) for row in rows]
        if any(len(found) != self._width for found in fields):
            counted = list(zip(fields, rows, strict=True))
            rejected += [
                form.mismatch(self._width, len(found), row) for found, row in counted if len(found) != self._width
            ]
            fields = [found for found in fields if len(found) == self._width]
            rows = [row for found, row in counted if len(found) == self._width]
        columns = [_nulls_marked(column) for column in zip(*fields, strict=True)] or [()] * self._width
        return Window(list(columns), rows, rejected)


class RowCounter:
    """Counts rows without looking at them: `--count-only` does that at several GB/s. Blank rows count as rows."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._found = 0
        self._ended = True

    def feed(self, buffer: bytearray, count: int) -> None:
        """Count in the first `count` bytes of a buffer."""
        self._found += buffer.count(self._delimiter, 0, count)
        self._ended = buffer[count - 1 : count] == self._delimiter

    @property
    def rows(self) -> int:
        """Rows so far; the last one needs no delimiter."""
        return self._found + (not self._ended)


def one_byte(text: str) -> bytes | None:
    r"""The byte of a separator header, as it is or as `\x01`; None for what the stand-ins do not read."""
    digits = re.fullmatch(r"\\x([0-7][0-9a-f])", text, re.IGNORECASE)
    found = bytes.fromhex(digits[1]) if digits else text.encode()
    return found if len(found) == 1 and text != "\\" else None


def unknown_header(headers: Mapping[str, str], given: Mapping[str, frozenset[str]]) -> str | None:
    """The first header with a value that no sink of ours sends; `given`: the values of each that mean nothing."""
    return next((name for name, harmless in given.items() if headers.get(name, "").lower() not in harmless), None)


def unpacked(packed: bytes, codec: str) -> bytes:
    """A compressed body, by Arrow's name of the codec. Raises OSError."""
    with pa.CompressedInputStream(pa.py_buffer(packed), codec) as stream:
        return bytes(stream.read())


def _nulls_marked(fields: Sequence[bytes]) -> Fields:
    return [None if one == NULL else one for one in fields] if NULL in fields else fields


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
