r"""Where the items of a projection begin and end: commas outside quotes, comments, brackets, CASE; `\*` becomes `*`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdc.transform.syntax import ExpressionError, Mistake, Span

_CLOSES = {")": "(", "]": "["}
_WORD = re.compile(r"[^\W\d]\w*")


def items(text: str) -> list[Span]:
    """The text between top-level commas, blanks trimmed; one comma at the end is allowed. Raises ExpressionError."""
    spans: list[Span] = []
    mistakes: list[Mistake] = []
    start = 0
    for offset in [*_commas(text), len(text)]:
        span = _trimmed(text, start, offset)
        if span.start < span.end:
            spans.append(span)
        elif offset < len(text):
            mistakes.append(Mistake(Span(offset, offset + 1), "nothing stands before this comma", "remove it"))
        start = offset + 1
    if mistakes:
        raise ExpressionError(*mistakes)
    return spans


def check(text: str) -> None:
    """Raise ExpressionError for quotes and brackets that do not close, and for `;`."""
    for _ in _commas(text):
        pass


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def _commas(text: str) -> Iterator[int]:
    opened: list[tuple[str, int]] = []
    position, cases = 0, 0
    held: list[int] = []  # commas between CASE and END; where END is missing they count, for the messages' sake
    while position < len(text):
        char = text[position]
        if not opened and (word := _WORD.match(text, position)):
            name, position = word[0].upper(), word.end()
            cases = cases + 1 if name == "CASE" else max(cases - 1, 0) if name == "END" else cases
            held = held if cases else []
            continue
        if char in "'\"`":
            position = _quoted(text, position)
            continue
        if text.startswith(("--", "/*"), position):
            position = _comment(text, position)
            continue
        if char in "([":
            opened.append((char, position))
        elif char in _CLOSES:
            if not opened or opened[-1][0] != _CLOSES[char]:
                raise _error(position, f"`{char}` closes nothing", "remove it, or open it before")
            opened.pop()
        elif char == ";":
            raise _error(position, "`;` cannot stand in an expression", "remove it")
        elif char == "," and not opened and cases:
            held.append(position)
        elif char == "," and not opened:
            yield position
        position += 1
    if opened:
        char, position = opened[-1]
        raise _error(position, f"`{char}` is never closed", f"add `{')' if char == '(' else ']'}`")
    yield from held


def _quoted(text: str, start: int) -> int:
    """The offset behind the closing quote; a doubled quote is part of the text."""
    quote, position = text[start], start + 1
    while True:
        end = text.find(quote, position)
        if end < 0:
            raise _error(start, f"the quote {quote} is never closed", f"add {quote} at the end")
        if not text.startswith(quote, end + 1):
            return end + 1
        position = end + 2


def _comment(text: str, start: int) -> int:
    end_mark = "\n" if text.startswith("--", start) else "*/"
    end = text.find(end_mark, start + 2)
    if end < 0 and end_mark == "*/":
        raise _error(start, "the comment is never closed", "add */")
    return len(text) if end < 0 else end + len(end_mark)


def _error(offset: int, message: str, hint: str) -> ExpressionError:
    return ExpressionError(Mistake(Span(offset, offset + 1), message, hint))
