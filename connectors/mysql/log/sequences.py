"""Positions as sequences: numbers of logged rows that define the order of everything."""

from __future__ import annotations

from connectors.mysql.server.positions import file_number

_SHIFT = 40


def sequence_of(file: str, position: int, files_ahead: int = 0) -> int:
    """Return the sequence of a row whose event ends at this position. `files_ahead` as in the offset."""
    return (file_number(file) + files_ahead) << _SHIFT | position


def sequence_text(sequence: int) -> str:
    """Format a sequence as `log file:position`, such as `000003:1234`; empty when the row is not from a log."""
    if sequence <= 0:
        return ""
    return f"{sequence >> _SHIFT:06d}:{sequence & ((1 << _SHIFT) - 1)}"
