"""First pass over a receive buffer: finds the table of every rows event, without Python per event.

A TABLE_MAP event announces a table under a number (its table id) for the rows events of one statement; every statement
announces its tables again. The bytes of known announcements are stored, with a hash index, so that a known one costs a
comparison and perhaps a hash; an unknown one goes to Python. Table ids are valid until the statement's last rows event.

All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.ops import IDS, KNOWN, SCAN, offset
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek16, peek32, peek64, poke64, prefetch, same_bytes

_HEADER = 19
_TABLE_MAP = 19
_STATEMENT_END = 1
_DUMMY_ID = 0xFFFFFF
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_KNOWN, _IDS = KNOWN.itemsize, IDS.itemsize
_HASH, _START, _LENGTH, _SLOT = (offset(KNOWN, name) for name in ("hash", "start", "length", "slot"))
_ID, _EPOCH, _ENTRY = offset(IDS, "id"), offset(IDS, "epoch"), offset(IDS, "entry")
_AHEAD = 8
"""How many events ahead the first cache line is prefetched."""
_NEXT, _FOUND, _NOW = offset(SCAN, "next"), offset(SCAN, "found"), offset(SCAN, "epoch")


@kernel.entry
def hash_bytes(at: Int, size: Int) -> Int:
    """Return a 64-bit hash of `size` bytes, computed eight at a time."""
    value = np.uint64(size)
    end = at + size
    while end - at >= 8:
        value = (value ^ np.uint64(peek64(at))) * _PRIME
        value ^= value >> _SHIFT
        at += 8
    word = np.int64(0)
    while at < end:
        word = word << 8 | peek8(at)
        at += 1
    value = (value ^ np.uint64(word)) * _PRIME
    return np.int64(value ^ (value >> _SHIFT))


@kernel
def _find(at: Int, size: Int, index: Int, mask: Int, known: Int, texts: Int) -> Int:
    """Return the number of the KNOWN record with these bytes, -1 when there is none."""
    code = hash_bytes(at, size)
    row = code & mask
    while True:
        number = peek64(index + 8 * row)
        if number < 0:
            return number
        record = known + number * _KNOWN
        alike = peek64(record + _HASH) == code and peek64(record + _LENGTH) == size
        if alike and same_bytes(at, texts + peek64(record + _START), size):
            return number
        row = (row + 1) & mask


@kernel.entry
def fill_index(index: Int, mask: Int, known: Int, first: Int, last: Int) -> None:
    """Enter KNOWN records `first` up to `last` into the index: int64[mask + 1], a power of two, -1 where empty."""
    for number in range(first, last):
        row = peek64(known + number * _KNOWN + _HASH) & mask
        while peek64(index + 8 * row) >= 0:
            row = (row + 1) & mask
        poke64(index + 8 * row, number)


@kernel.entry
def remember_id(number: Int, entry: Int, ids: Int, mask: Int, epoch: Int) -> bool:
    """Note the KNOWN record of a table id. Returns false when the table of ids is full."""
    for probe in range(mask):
        item = ids + ((number + probe) & mask) * _IDS
        if peek64(item + _EPOCH) != epoch or peek64(item + _ID) == number:
            poke64(item + _ID, number)
            poke64(item + _EPOCH, epoch)
            poke64(item + _ENTRY, entry)
            return True
    return False


@kernel
def _recall(number: Int, ids: Int, mask: Int, epoch: Int, known: Int) -> Int:
    """Return the slot of a table id in this epoch, EMPTY when it was not announced."""
    for probe in range(mask + 1):
        item = ids + ((number + probe) & mask) * _IDS
        if peek64(item + _EPOCH) != epoch:
            return ops.EMPTY
        if peek64(item + _ID) == number:
            return peek64(known + peek64(item + _ENTRY) * _KNOWN + _SLOT)
    return ops.EMPTY


@kernel
def _announced(
    number: Int, at: Int, size: Int, ids: Int, ids_mask: Int, index: Int, mask: Int, known: Int, texts: Int
) -> Int:
    """Return the number of the KNOWN record of an announcement, -1 when it is new.

    Tries the last one of its id first.
    """
    item = ids + (number & ids_mask) * _IDS
    if peek64(item + _ID) == number:
        entry = peek64(item + _ENTRY)
        record = known + entry * _KNOWN
        if peek64(record + _LENGTH) == size and same_bytes(at, texts + peek64(record + _START), size):
            return entry
    return _find(at, size, index, mask, known, texts)


@kernel.entry
def scan_events(
    src: Int,
    size: Int,
    starts: Int,
    ends: Int,
    types: Int,
    count: Int,
    index: Int,
    mask: Int,
    known: Int,
    texts: Int,
    ids: Int,
    ids_mask: Int,
    events: Int,
    slots: Int,
    state: Int,
) -> Int:
    """List the rows events of wanted tables with their slots.

    src, size, starts, ends, types, count: the buffer. index, mask, known, texts: announcements seen so far. events,
    slots: int64 each, with room for `count`, filled from state.found on. state: a SCAN record.

    Returns DONE, or a code with state.next at the event concerned: UNKNOWN_MAP, UNKNOWN_TABLE_ID, CORRUPT, IDS_FULL.
    """
    found = peek64(state + _FOUND)
    epoch = peek64(state + _NOW)
    for event in range(peek64(state + _NEXT), count):
        code = peek8(types + event)
        ahead = src + peek64(starts + 8 * min(event + _AHEAD, count - 1)) + _HEADER
        prefetch(ahead)
        prefetch(ahead + 64)
        if code == _TABLE_MAP or (code >= 23 and code <= 25) or (code >= 30 and code <= 32) or code == 39:
            poke64(state + _NEXT, event)
            start = peek64(starts + 8 * event)
            end = peek64(ends + 8 * event)
            if start < 0 or end > size or end - start < _HEADER + 8:
                return ops.CORRUPT
            at = src + start + _HEADER
            number = peek32(at) | peek16(at + 4) << 32
            if code == _TABLE_MAP:
                record = _announced(number, at + 6, end - start - _HEADER - 6, ids, ids_mask, index, mask, known, texts)
                if record < 0:
                    return ops.UNKNOWN_MAP
                if not remember_id(number, record, ids, ids_mask, epoch):
                    return ops.IDS_FULL
                continue
            slot = _recall(number, ids, ids_mask, epoch, known)
            last = peek16(at + 6) & _STATEMENT_END
            if slot == ops.EMPTY and not (number == _DUMMY_ID and last):
                return ops.UNKNOWN_TABLE_ID
            if slot >= 0:
                poke64(events + 8 * found, event)
                poke64(slots + 8 * found, slot)
                found += 1
                poke64(state + _FOUND, found)
            if last:
                epoch += 1
                poke64(state + _NOW, epoch)
    poke64(state + _NEXT, count)
    return ops.DONE


@kernel.entry
def group_events(
    starts: Int, ends: Int, events: Int, slots: Int, found: Int, count: Int, firsts: Int, sizes: Int, order: Int
) -> None:
    """Sort events[:found] by slot into `order`; within a slot, log order is kept.

    firsts: int64[count + 1], zeroed; receives the place in `order` where each slot starts. sizes: int64[count], zeroed;
    receives the bytes of each slot's events.
    """
    for i in range(found):
        slot = peek64(slots + 8 * i)
        event = peek64(events + 8 * i)
        bytes_at = sizes + 8 * slot
        poke64(firsts + 8 * slot + 8, peek64(firsts + 8 * slot + 8) + 1)
        poke64(bytes_at, peek64(bytes_at) + peek64(ends + 8 * event) - peek64(starts + 8 * event))
    for slot in range(1, count + 1):
        poke64(firsts + 8 * slot, peek64(firsts + 8 * slot) + peek64(firsts + 8 * slot - 8))
    for i in range(found):
        first = firsts + 8 * peek64(slots + 8 * i)
        poke64(order + 8 * peek64(first), peek64(events + 8 * i))
        poke64(first, peek64(first) + 1)
    for slot in range(count, 0, -1):
        poke64(firsts + 8 * slot, peek64(firsts + 8 * slot - 8))
    poke64(firsts, 0)
