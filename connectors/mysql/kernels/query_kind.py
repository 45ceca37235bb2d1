"""Classifies QUERY events by the first words of the statement, so that no other code has to."""

from __future__ import annotations

from typing import Final

import numpy as np

from connectors.mysql import events
from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.bits import u16
from connectors.shared.kernels.kernel_types import Bytes, Int

_HEADER: Final = events.HEADER_SIZE + events.QUERY_POST_HEADER
_BEGIN, _COMMIT, _HARMLESS = np.uint8(events.BEGIN), np.uint8(events.COMMIT), np.uint8(events.HARMLESS)
_OTHER, _ROLLBACK = np.uint8(events.OTHER), np.uint8(events.ROLLBACK)


def _packed(word: str) -> int:
    """Return the first eight letters as one number, the first letter lowest."""
    return int.from_bytes(word[:8].encode(), "little")


_W_ANALYZE: Final = _packed("ANALYZE")
_W_BEGIN: Final = _packed("BEGIN")
_W_COMMIT: Final = _packed("COMMIT")
_W_END: Final = _packed("END")
_W_FLUSH: Final = _packed("FLUSH")
_W_GRANT: Final = _packed("GRANT")
_W_RELEASE: Final = _packed("RELEASE")
_W_REVOKE: Final = _packed("REVOKE")
_W_ROLLBACK: Final = _packed("ROLLBACK")
_W_SAVEPOINT: Final = _packed("SAVEPOINT")
_W_START: Final = _packed("START")
_W_TABLE: Final = _packed("TABLE")
_W_TRANSACTION: Final = _packed("TRANSACTION")
_W_XA: Final = _packed("XA")
_W_WORK: Final = _packed("WORK")

_SPACES: Final = np.array([chr(code) in " \t\r\n\v\f\0;" for code in range(256)])
_LETTERS: Final = np.array([(chr(code).isalnum() and code < 128) or chr(code) in "_$" for code in range(256)])


@kernel
def _word(data: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Return the word at `at` in capitals, packed as by `_packed`, and the offset after it; 0 when there is none."""
    packed, letters = np.int64(0), 0
    while at < end and _LETTERS[data[at]]:
        if letters < 8:
            code = np.int64(data[at])
            if 97 <= code <= 122:
                code -= 32
            packed |= code << (8 * letters)
        letters += 1
        at += 1
    return packed, at


@kernel
def _line_end(data: Bytes, at: Int, end: Int) -> Int:
    while at < end and data[at] != 10:
        at += 1
    return at


@kernel
def _comment_end(data: Bytes, at: Int, end: Int) -> Int:
    """Return the offset after a plain comment at `at`; `at` itself when there is none, or a versioned one."""
    if data[at] == 35:  # '#'
        return _line_end(data, at, end)
    if at + 2 < end and data[at] == 45 and data[at + 1] == 45 and _SPACES[data[at + 2]]:  # '-- '
        return _line_end(data, at, end)
    if at + 2 >= end or data[at] != 47 or data[at + 1] != 42 or data[at + 2] == 33:  # '/*' but not '/*!'
        return at
    if data[at + 2] == 77 and at + 3 < end and data[at + 3] == 33:  # '/*M!'
        return at
    at += 2
    while at + 1 < end and not (data[at] == 42 and data[at + 1] == 47):
        at += 1
    return min(at + 2, end)


@kernel
def _skip_space(data: Bytes, at: Int, end: Int) -> Int:
    """Return the offset of the first byte that is neither white space, `;` nor inside a plain comment."""
    while at < end:
        after = at + 1 if _SPACES[data[at]] else _comment_end(data, at, end)
        if after == at:
            break
        at = after
    return at


@kernel.entry
def query_kind(data: Bytes, start: Int, end: Int) -> Int:
    """Return `events.BEGIN` .. `events.ROLLBACK` for the QUERY event at `data[start:end]`, without checksum.

    -1 when it is corrupt.
    """
    if end - start < _HEADER:
        return -1
    at = start + _HEADER + u16(data, start + _HEADER - 2) + np.int64(data[start + events.HEADER_SIZE + 8]) + 1
    if at > end:
        return -1
    return statement_kind(data, at, end)


@kernel.entry
def statement_kind(data: Bytes, at: Int, end: Int) -> Int:
    """Return the `query_kind` of the statement text `data[at:end]`. Plain comments before it are skipped."""
    at = _skip_space(data, at, end)
    if at >= end:
        return _HARMLESS
    first, at = _word(data, at, end)
    if first == _W_BEGIN:
        word, at = _word(data, _skip_space(data, at, end), end)
        return _BEGIN if (word == 0 or word == _W_WORK) and _skip_space(data, at, end) >= end else _OTHER
    if first == _W_COMMIT:
        return _COMMIT
    if first == _W_ROLLBACK:
        return _ROLLBACK
    if first == _W_SAVEPOINT:
        return _HARMLESS
    if first in (_W_FLUSH, _W_GRANT, _W_REVOKE):
        return _HARMLESS
    second, at = _word(data, _skip_space(data, at, end), end)
    if first == _W_RELEASE and second == _W_SAVEPOINT:
        return _HARMLESS
    if first == _W_ANALYZE and second == _W_TABLE:
        return _HARMLESS
    if first == _W_START and second == _W_TRANSACTION:
        return _BEGIN
    if first == _W_XA and second in (_W_START, _W_BEGIN, _W_END):
        return _HARMLESS
    return _OTHER
