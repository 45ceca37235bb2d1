"""SQL text inside a YAML value, with the position of each character in the file.

YAML writes one text in several ways (plain, quoted, `|` and `>` blocks, folded lines). The characters of the value
appear in the file in the same order, so one pass over both aligns them.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from cdc.errors import Problem
from cdc.transform.syntax import Mistake

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", " ": " ", "/": "/", "\\": "\\", '"': '"'}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class SqlText:
    """The text of an expression and its position.

    Attributes:
        text: the parsed YAML value.
        file: path of the pipeline file.
        path: dotted key, such as `transform[0].projection`.
        segments: (offset in `text`, line, column) of the first character of each contiguous stretch of the file;
            ascending.
        exact: False when the file has another text (it contains `${...}`); all positions are then its start.
    """

    text: str
    file: str = ""
    path: str = ""
    segments: tuple[tuple[int, int, int], ...] = ((0, 1, 1),)
    exact: bool = True

    @classmethod
    def in_file(cls, text: str, *, file: str, path: str, source: str, line: int, column: int) -> SqlText:
        """Locate a YAML scalar that starts at `line`, `column` (from 1) of a file with the text `source`."""
        lines = source.splitlines(keepends=True)
        start = sum(len(each) for each in lines[: line - 1]) + column - 1
        offsets = _align(text, source, start)
        if offsets is None:
            return cls(text, file, path, ((0, line, column),), exact=False)
        starts = [0]
        for each in lines:
            starts.append(starts[-1] + len(each))
        segments: list[tuple[int, int, int]] = []
        previous = -2
        for index, offset in enumerate(offsets):
            if offset != previous + 1:
                at = bisect.bisect_right(starts, offset) - 1
                segments.append((index, at + 1, offset - starts[at] + 1))
            previous = offset
        return cls(text, file, path, tuple(segments) or ((0, line, column),))

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and column in the file of a character of the text."""
        index = bisect.bisect_right(self.segments, (offset, 1 << 60, 0)) - 1
        start, line, column = self.segments[max(index, 0)]
        if not self.exact:
            return line, column
        return line, column + offset - start

    def problem(self, mistake: Mistake) -> Problem:
        """Convert a mistake to a problem for the user, with its position in the file."""
        line, column = self.place(mistake.span.start)
        return Problem(self.file, line, column, self.path, mistake.message, mistake.hint)


def _align(text: str, source: str, start: int) -> list[int] | None:
    """Return the offset in the file of each character of the value; None when the file has another text there."""
    style = source[start : start + 1]
    position = start + 1 if style in ("'", '"') else start
    if style in ("|", ">"):
        position = source.find("\n", start) + 1
    found: list[int] = []
    for char in text:
        step = _blank(source, position) if char.isspace() else _seek(char, source, position, style)
        if step is None:
            return None
        offset, position = step
        found.append(offset)
    return found


def _blank(source: str, position: int) -> tuple[int, int]:
    """Match a blank of the value: one in the file, a line end, or an escape; the next character skips further ones."""
    if source[position : position + 1].isspace():
        return position, position + 1
    if source.startswith("\\", position) and source[position + 1 : position + 2] in _ESCAPES:
        return position, position + 2
    return position, position


def _seek(char: str, source: str, position: int, style: str) -> tuple[int, int] | None:
    while source[position : position + 1].isspace() or source.startswith("\\\n", position):
        position += 1
    if style == '"' and source.startswith("\\", position):
        escape = source[position + 1 : position + 2]
        if escape in _HEX_ESCAPES:
            digits = source[position + 2 : position + 2 + _HEX_ESCAPES[escape]]
            return (position, position + 2 + len(digits)) if chr(int(digits, 16)) == char else None
        return (position, position + 2) if _ESCAPES.get(escape) == char else None
    if not source.startswith(char, position):
        return None
    return position, position + (2 if style == "'" and char == "'" else 1)
