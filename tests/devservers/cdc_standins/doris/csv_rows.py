r"""CSV as Doris's back end reads it: lines, separators, `enclose` and `escape`, `\N`.

What the reader does, in the order it does it:

- Without `enclose` there is no quoting: lines end at the delimiter, fields at the separator, whatever is in the data.
- With `enclose` a field that starts with it goes on to the next such byte that is neither doubled nor escaped;
  separators and delimiters within belong to it. What follows up to the separator belongs to it, too.
- The delimiter `\n` also takes a `\r` before it away. Empty lines are skipped. A byte order mark at the start of a
  block of 4064 rows is taken off.
- A line that is not UTF-8, or has another number of fields than columns, is filtered.
- Of a field longer than one byte that starts and ends with the enclosing byte, both are taken off; then `\N` is NULL,
  enclosed or not; then, with `escape` only, doubled enclosing bytes and escapes are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

NULL = b"\\N"
BLOCK_ROWS = 4064
WINDOW_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"

Field = bytes | None


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the text is written; `enclose` and `escape` are one byte or empty."""

    separator: bytes = b"\t"
    delimiter: bytes = b"\n"
    enclose: bytes = b""
    escape: bytes = b""
    skip_lines: int = 0
    empty_field_as_null: bool = False


@dataclass(slots=True)
class Rows:
    """Rows as columns of fields, and why lines were filtered before they became rows."""

    columns: list[Sequence[Field]]
    count: int
    filtered: list[str] = field(default_factory=list)


class CsvReader:
    """Bytes to rows of `width` fields; feed it blocks, take windows."""

    def __init__(self, form: CsvFormat, width: int) -> None:
        self._form, self._width = form, width
        self._pending = bytearray()
        self._skip = form.skip_lines
        self._seen = 0

    def feed(self, block: memoryview) -> Iterator[Rows]:
        """Take bytes; yields a window when there are enough. With `enclose` all comes at the end."""
        self._pending += block
        if len(self._pending) >= WINDOW_BYTES and not self._form.enclose:
            end = self._pending.rfind(self._form.delimiter)
            if end >= 0:
                end += len(self._form.delimiter)
                text = bytes(memoryview(self._pending)[:end])
                del self._pending[:end]
                yield self._rows(text)

    def finish(self) -> Iterator[Rows]:
        """The rest."""
        text, self._pending = bytes(self._pending), bytearray()
        if text:
            yield self._rows(text)

    def _rows(self, text: bytes) -> Rows:
        lines = list(self._enclosed_lines(text) if self._form.enclose else self._plain_lines(text))
        if self._skip:
            skipped = min(self._skip, len(lines))
            lines, self._skip = lines[skipped:], self._skip - skipped
        lines = [line for line in lines if line != [b""]]
        for index in range(-self._seen % BLOCK_ROWS, len(lines), BLOCK_ROWS):
            first = lines[index]
            if first[0].startswith(_BOM):
                first[0] = first[0][len(_BOM) :]
        self._seen += len(lines)
        filtered: list[str] = []
        if not _is_utf8(text):
            lines = [line for line in lines if _is_utf8(b"".join(line)) or _reject(filtered, _NOT_UTF8)]
        if any(len(line) != self._width for line in lines):
            lines = [line for line in lines if len(line) == self._width or _reject(filtered, self._mismatch(line))]
        columns = [self._unescaped(column) for column in zip(*lines, strict=True)]
        return Rows(columns or [()] * self._width, len(lines), filtered)

    def _plain_lines(self, text: bytes) -> Iterator[list[bytes]]:
        form = self._form
        lines = text.split(form.delimiter)
        last = lines.pop()
        if form.delimiter == b"\n" and b"\r\n" in text:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        if last:
            lines.append(last)
        separator = form.separator
        return (line.split(separator) for line in lines)

    def _enclosed_lines(self, text: bytes) -> Iterator[list[bytes]]:
        form = self._form
        line: list[bytes] = []
        for match in _field_pattern(form).finditer(text):
            end = match["end"]
            line.append(match["field"])
            if end == form.separator:
                continue
            if form.delimiter == b"\n" and end and line[-1].endswith(b"\r"):
                line[-1] = line[-1][:-1]
            if end or line != [b""]:
                yield line
            line = []
            if not end:
                return

    def _unescaped(self, column: Sequence[bytes]) -> Sequence[Field]:
        form = self._form
        if form.enclose:
            column = [_trimmed(one, form.enclose) for one in column]
        result: Sequence[Field] = column
        if NULL in column:
            result = [None if one == NULL else one for one in column]
        if form.empty_field_as_null and b"" in column:
            result = [one or None for one in result]
        if form.escape:
            result = [one if one is None else _resolved(one, form.enclose or b"\0", form.escape) for one in result]
        return result

    def _mismatch(self, line: list[bytes]) -> str:
        form = self._form
        shown = [one.replace(b"\t", b"\\t").replace(b"\n", b"\\n").decode(errors="replace")
                 for one in (form.separator, form.delimiter)]  # fmt: skip
        more = (f" encl:{form.enclose.decode()}" if form.enclose else "") + (
            f" esc:{form.escape.decode()}" if form.escape else ""
        )
        found = f"expected {self._width}, but found {len(line)}"
        return f"Column count mismatch: {found} (sep:{shown[0]} delim:{shown[1]}{more})"


_NOT_UTF8 = "Invalid file encoding: all CSV files must be UTF-8 encoded"


def _field_pattern(form: CsvFormat) -> re.Pattern[bytes]:
    """A field and what ends it: separator, delimiter, or nothing at the end of the text.

    Without `escape` the reader takes the zero byte for it, though only to find where a field ends.
    """
    enclose, escape = re.escape(form.enclose), re.escape(form.escape or b"\0")
    separator, delimiter = re.escape(form.separator), re.escape(form.delimiter)
    plain = rb"(?:(?!" + separator + rb"|" + delimiter + rb").)*"
    if len(form.separator) == len(form.delimiter) == 1:
        plain = rb"[^" + separator + delimiter + rb"]*"
    names = (b"atom%d" % number for number in count())

    def atomic(pattern: bytes) -> bytes:
        """Matched once and never tried another way. Possessive quantifiers of groups are wrong before Python 3.11.5."""
        name = next(names)
        return rb"(?=(?P<" + name + rb">" + pattern + rb"))(?P=" + name + rb")"

    def escaped() -> bytes:
        """Also between the two bytes of a doubled one, and after the closing one."""
        return atomic(rb"(?:" + escape + rb".)*")

    doubled = enclose + escaped() + enclose
    inside = atomic(rb"(?:[^" + enclose + escape + rb"]+|" + escape + rb".|" + doubled + rb")*")
    quoted = enclose + inside + enclose + escaped() + atomic(plain)
    return re.compile(
        rb"(?P<field>" + quoted + rb"|(?!" + enclose + rb")" + atomic(plain) + rb"|" + enclose + rb".*)"
        rb"(?P<end>" + separator + rb"|" + delimiter + rb"|\Z)",
        re.DOTALL,
    )


def _trimmed(found: bytes, enclose: bytes) -> bytes:
    return found[1:-1] if len(found) > 1 and found[:1] == enclose == found[-1:] else found


def _resolved(found: bytes, enclose: bytes, escape: bytes) -> bytes:
    """Escapes and doubled enclosing bytes resolved, byte after byte as the server does."""
    if escape not in found and enclose + enclose not in found:
        return found
    result = bytearray()
    skip = False
    for at in range(len(found)):
        one = found[at : at + 1]
        special = one == escape or (one == enclose and found[at + 1 : at + 2] == enclose)
        skip = special and not skip
        if not skip:
            result += one
    return bytes(result)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reject(filtered: list[str], reason: str) -> bool:
    filtered.append(reason)
    return False
