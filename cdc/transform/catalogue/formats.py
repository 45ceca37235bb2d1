"""Patterns of dates and times as Java writes them (`yyyy-MM-dd HH:mm:ss`), turned into the engine's."""

from __future__ import annotations

import re

from cdc.transform.typed import Typed, mistake
from cdc.units import OptionError, engine_zone, zone_name

_LETTERS = {
    "yyyy": "%Y", "y": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "d": "%-d",
    "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S", "SSS": "%g",
    "SSSSSS": "%f", "a": "%p", "E": "%a", "EEE": "%a", "EEEE": "%A", "DDD": "%j",
}  # fmt: skip
_READ = {**_LETTERS, "SSSSSSSSS": "%n"}
_WRITTEN = {
    **_LETTERS,
    "D": "%-j",
    "SSSSSSSSS": "%f000",
}  # moments have six digits, and the engine's %n is wrong inside a pattern
_OFFSETS = dict.fromkeys(("Z", *("X" * digits for digits in (1, 2, 3))), "%z")
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def engine_format(node: Typed, *, reads: bool = False, offsets: bool = False) -> str:
    """The engine's pattern for a constant Java pattern that writes text, or `reads` it, with `offsets` such as +08:00.

    Raises ExpressionError for letters it cannot express.
    """
    known = {**(_READ if reads else _WRITTEN), **(_OFFSETS if offsets else {})}
    pattern, result, position = str(node.value), "", 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            raise mistake(node.span, f"the pattern '{pattern}' has a quote that is never closed", "double it")
        piece = match[0]
        if match[2]:
            if piece not in known:
                hint = f"known are {', '.join(sorted(known))}; put text in quotes"
                raise mistake(node.span, f"`{piece}` in the pattern '{pattern}' is not supported", hint)
            result += known[piece]
        else:
            text = (match[1] or "").replace("''", "'") or "'" if piece.startswith("'") else piece
            result += text.replace("%", "%%")
        position = match.end()
    return result


def checked_zone(node: Typed) -> str:
    """The engine's name of a time zone. Raises ExpressionError when there is no such zone."""
    try:
        return engine_zone(zone_name(str(node.value)))
    except OptionError as error:
        raise mistake(node.span, str(error), error.hint) from error
