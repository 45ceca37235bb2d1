"""SQL's SIMILAR TO patterns as regular expressions."""

from __future__ import annotations

import re

_SPECIAL = "|*+?(){}[]^-"


def similar_to_regex(pattern: str, escape: str | None) -> str:
    """The regular expression that matches the same whole texts. Raises ValueError with the reason."""
    result, position, inside = "(?s:", 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            if position + 1 == len(pattern):
                raise ValueError("ends with its escape character")
            result += re.escape(pattern[position + 1])
            position += 2
            continue
        if inside:
            inside = char != "]"
            result += "\\\\" if char == "\\" else char
        elif char in "%_":
            result += ".*" if char == "%" else "."
        else:
            inside = char == "["
            result += char if char in _SPECIAL and char not in "^-" else re.escape(char)
        position += 1
    if inside:
        raise ValueError("has a [ that is never closed")
    return result + ")"
