"""Escaping of printed text, so that it cannot move the cursor, reverse the text direction or fake a log line.

Names of tables and columns and server messages are untrusted. All output passes through `printable` where it leaves the
process: the command line, the log, the status line, the summary.
"""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 500
"""Maximum characters per line; the middle of a longer line is cut."""

_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Control characters except tab and line feed, zero-width and direction-changing characters, lone surrogates."""


def printable(text: object, *, longest: int = LONGEST) -> str:
    """Escape such characters (`\\x1b`), cut the middle of long lines and indent all lines after the first."""
    if isinstance(text, str) and len(text) <= longest and text.isascii() and text.isprintable():
        return text
    return "\n  ".join(_line(part, longest) for part in str(text).split("\n"))


def printable_json(value: Any) -> Any:
    """Escape the strings in a JSON value as `printable` does, including those in lists and mappings."""
    if isinstance(value, str):
        return "\n".join(_line(part, LONGEST) for part in value.split("\n"))
    if isinstance(value, dict):
        return {printable_json(key): printable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable_json(item) for item in value]
    return value


def _line(text: str, longest: int) -> str:
    if len(text) > longest:
        left_out = len(text) - longest
        text = f"{text[: longest * 3 // 4]} ... {left_out:,} characters left out ... {text[-(longest // 4) :]}"
    return _NOT_SHOWN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
