"""The text of an ALTER TABLE in parts: comments away, literals out of the way, one clause after the other. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

PART = r"(`(?:[^`]|``)+`|[\w$]+)"
"""A name, in one group."""

_NOISE = re.compile(
    r"""/\*(?:[^*]|\*(?!/))*\*/|--\s[^\n]*|\#[^\n]*|('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(`(?:[^`]|``)+`)""",
    re.DOTALL,
)


def without_noise(sql: str) -> tuple[str, list[str]]:
    """The text without comments, with `'0'`, `'1'`, ... for its literals; and these, as they are written."""
    literals: list[str] = []

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[2] or " "
        literals.append(match[1])
        return f"'{len(literals) - 1}'"

    return _NOISE.sub(put, sql), literals


def clauses(text: str) -> Iterator[str]:
    """The parts between commas that are in no parentheses."""
    depth, first = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            yield text[first:place].strip()
            first = place + 1
    yield text[first:].strip()


def plain(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
