"""Splits the bytes of a result set into the packets of its rows.

A packet is a 3-byte length, a sequence number and that many bytes; one of 16 MB - 1 continues in the next one (MySQL
"Protocol Basics: Packets"). A row of the binary protocol begins with a zero byte, the end of the result with 0xfe (and
is shorter than 9 bytes), an error with 0xff. All arguments are addresses and numbers; states: see `protocol`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.snapshot.read.kernels import kernel, protocol
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek24, peek64, poke8, poke64

_HEADER = 4
_LONGEST = 0xFFFFFF


@kernel
def _shift(to: Int, source: Int, size: Int) -> None:
    """Copy bytes to a lower address.

    The ranges may overlap: every load precedes the store that overwrites its source.
    """
    i = np.int64(0)
    while size - i >= 8:
        poke64(to + i, peek64(source + i))
        i += 8
    while i < size:
        poke8(to + i, peek8(source + i))
        i += 1


@kernel
def _join(begin: Int, limit: Int, state: Int) -> Int:
    """Join the parts of a long packet at address `begin` after its first header.

    Returns the length of the joined packet and sets AT to the address after the last part; -1 when it is incomplete, -2
    when the parts are out of sequence.
    """
    at, parts = begin, np.int64(0)
    sequence = peek64(state + 8 * protocol.SEQUENCE)
    while True:
        if at + _HEADER > limit:
            return np.int64(-1)
        size = peek24(at)
        if peek8(at + 3) != sequence + parts & 255:
            return np.int64(-2)
        if at + _HEADER + size > limit:
            return np.int64(-1)
        parts += 1
        at += _HEADER + size
        if size < _LONGEST:
            break
    end = begin + _HEADER
    part = begin
    for number in range(parts):
        size = peek24(part)
        following = part + _HEADER + size
        if number > 0:
            _shift(end, part + _HEADER, size)
        end += size
        part = following
    poke64(state + 8 * protocol.SEQUENCE, sequence + parts & 255)
    poke64(state + 8 * protocol.AT, at)
    return end - begin - _HEADER


@kernel.entry
def split_packets(source: Int, filled: Int, state: Int, starts: Int, ends: Int, count: Int, capacity: Int) -> Int:
    """Enter the complete rows from offset AT on as entries `count` up to `capacity`; returns the new number of entries.

    source: address of the buffer. filled: bytes in it. starts, ends: int64 offsets of the rows' bytes. The parts of a
    long packet are joined in place. ENDED says whether the result has ended; entries before that are valid.
    """
    limit = source + filled
    while count < capacity and peek64(state + 8 * protocol.ENDED) == protocol.GOING:
        at = source + peek64(state + 8 * protocol.AT)
        if at + _HEADER > limit:
            break
        size = peek24(at)
        begin = at + _HEADER
        if size == _LONGEST:
            size = _join(at, limit, state)
            if size == -1:
                break
            behind = peek64(state + 8 * protocol.AT)
            poke64(state + 8 * protocol.AT, at - source)
            if size == -2:
                poke64(state + 8 * protocol.ENDED, protocol.NO_PACKET)
                break
        else:
            sequence = peek64(state + 8 * protocol.SEQUENCE)
            if peek8(at + 3) != sequence or size == 0:
                poke64(state + 8 * protocol.ENDED, protocol.NO_PACKET)
                break
            behind = begin + size
            if behind > limit:
                break
            poke64(state + 8 * protocol.SEQUENCE, sequence + 1 & 255)
        first = peek8(begin)
        if first == 0:
            poke64(starts + 8 * count, begin - source)
            poke64(ends + 8 * count, begin + size - source)
            count += 1
        elif first == 0xFF:
            poke64(state + 8 * protocol.ENDED, protocol.REFUSED)
            break
        elif first == 0xFE and size < 9:
            poke64(state + 8 * protocol.ENDED, protocol.END)
        else:
            poke64(state + 8 * protocol.ENDED, protocol.NO_PACKET)
            break
        poke64(state + 8 * protocol.AT, behind - source)
    return count
