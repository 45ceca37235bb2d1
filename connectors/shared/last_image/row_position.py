"""Where a row image stands in the source's log, as text for errors and dead letters."""

from __future__ import annotations

_FILE_SHIFT = 40


def position_text(sequence: int) -> str:
    """`log file:position` of a block's sequence number, such as `000003:1234`; empty when the row is from no log."""
    if sequence <= 0:
        return ""
    return f"{sequence >> _FILE_SHIFT:06d}:{sequence & ((1 << _FILE_SHIFT) - 1)}"
