"""Kernels for values that become text: ENUM and SET labels, UUIDs. `to` and `end` are addresses."""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import move, peek8, peek64, poke8

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@kernel.entry
def write_label(index: Int, labels: Int, text: Int, to: Int, end: Int) -> Int:
    """Write label number `index`. Returns the address after it, 0 when there is no room.

    labels: address of int64 places in `text`, one more than there are labels.
    """
    start = peek64(labels + 8 * index)
    size = peek64(labels + 8 * index + 8) - start
    if size > end - to:
        return 0
    move(to, text + start, size)
    return to + size


@kernel.entry
def write_set(bits: Int, first: Int, count: Int, labels: Int, text: Int, to: Int, end: Int) -> Int:
    """Write the labels of the set bits with commas between them. Returns the address after, 0 when there is no room."""
    begin = to
    for i in range(count):
        if bits >> i & 1:
            if to > begin:
                if to >= end:
                    return 0
                poke8(to, 44)
                to += 1
            to = write_label(first + i, labels, text, to, end)
            if to == 0:
                return 0
    return to


@kernel
def _uuid_byte(at: Int, size: Int, index: Int) -> Int:
    """Return a stored byte; trailing zero bytes are not in the log."""
    return peek8(at + index) if index < size else np.int64(0)


@kernel
def write_uuid(at: Int, size: Int, to: Int) -> None:
    """Write a MariaDB UUID: 16 stored bytes, fewer when zeros follow, to 36 characters.

    Versions 1 to 5 are stored with their parts reordered so that they sort by time (MariaDB
    `plugin/type_uuid/sql_type_uuid.h`): node, sequence, high, middle, low.
    """
    eighth = _uuid_byte(at, size, 8)
    turned = _uuid_byte(at, size, 6) & 0x80 != 0 and eighth >= 1 and eighth <= 0x80
    for i in range(16):
        stored = i
        if turned:
            if i < 4:
                stored = 12 + i
            elif i < 6:
                stored = 6 + i
            elif i < 8:
                stored = 2 + i
            elif i < 10:
                stored = i - 2
            else:
                stored = i - 10
        value = _uuid_byte(at, size, stored)
        poke8(to, _HEX[value >> 4])
        poke8(to + 1, _HEX[value & 15])
        to += 2
        if i == 3 or i == 5 or i == 7 or i == 9:
            poke8(to, 45)
            to += 1
