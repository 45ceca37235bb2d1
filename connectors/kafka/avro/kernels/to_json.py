"""Convert Avro values to the JSON that Kafka Connect's JsonConverter would have written.

A schema is a table of nodes (int64[n, 3]): the kind of the node, its first child, and the number of its children.
Children are int64[m, 3]: the child's node, and the position in `names` and the size of the text that is written before
the child (`"name":`) or is the child (a symbol). Kernels pass the addresses of nodes and children, because passing
arrays costs them reference counting.
Bytes become base64.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.avro.kernels import kernel
from connectors.kafka.kernels.floats import double_json, float_json
from connectors.kafka.kernels.strings import base64_text, escaped
from connectors.shared.kernels.kernel_types import Int, Ints, Pair
from connectors.shared.kernels.memory import move, peek8, peek32, peek64, poke8, poke32, poke64
from connectors.shared.kernels.text.integers import signed_text

NULL, BOOLEAN, WHOLE, FLOAT, DOUBLE, BYTES, TEXT, FIXED, ENUM, ARRAY, MAP, RECORD, ROW, UNION = range(14)
"""The kinds of nodes. FIXED has its size in place of the first child. ROW is a record written without null members."""

DEEPEST = 32
"""How deep records, lists and maps may be nested."""
BAD, FULL = -1, -2
"""Returned instead of an address: the bytes do not fit the schema; there is no room for the text."""

_ROOM = 64
"""The most bytes that a value takes besides its own bytes."""
_KIND, _NEXT, _END, _LEFT, _WRITTEN = range(0, 40, 8)
FRAME = 5
"""The numbers that a frame, an unfinished record, list or map, has."""
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _LIST, _LIST_END = 34, 44, 58, 123, 125, 91, 93
_TRUE, _FALS, _NULL = 0x65757274, 0x736C6166, 0x6C6C756E
_ROW_BYTES = 24
_FIRST, _COUNT = 8, 16
_U1, _U7, _U63, _LOW7, _U0 = np.uint64(1), np.uint64(7), np.uint64(63), np.uint64(127), np.uint64(0)


@kernel
def number(at: Int, stop: Int) -> Pair:
    """Read a number of variable length: the number and the address after it, which is BAD when it does not end."""
    bits, shift = _U0, _U0
    while at < stop and shift <= _U63:
        byte = np.uint64(peek8(at))
        bits |= (byte & _LOW7) << shift
        at += 1
        if byte <= _LOW7:
            return np.int64(bits >> _U1) ^ -np.int64(bits & _U1), at
        shift += _U7
    return 0, BAD


@kernel
def _sized(kind: Int, at: Int, size: Int, to: Int, limit: Int) -> Int:
    """Write bytes or text in quotes; return the address after that, or FULL."""
    if limit - to < _ROOM + (6 * size if kind == TEXT else size // 3 * 4):
        return FULL
    poke8(to, _QUOTE)
    to = escaped(at, size, to + 1) if kind == TEXT else base64_text(at, size, 1, to + 1)
    poke8(to, _QUOTE)
    return to + 1


@kernel
def _scalar(children: Int, names: Int, node: Int, at: Int, stop: Int, to: Int, limit: Int) -> Pair:
    """Write a value without members; return the addresses after it and after its text, or BAD or FULL for both."""
    kind = peek64(node)
    if limit - to < _ROOM:
        return FULL, FULL
    if kind == NULL:
        poke32(to, _NULL)
        return at, to + 4
    if kind in (BOOLEAN, FLOAT, DOUBLE):
        size = 1 if kind == BOOLEAN else 4 if kind == FLOAT else 8
        if stop - at < size:
            return BAD, BAD
        if kind == FLOAT:
            return at + 4, float_json(np.uint64(peek32(at)), False, to)
        if kind == DOUBLE:
            return at + 8, double_json(np.uint64(peek64(at)), False, to)
        if peek8(at) > 1:
            return BAD, BAD
        poke32(to, _TRUE if peek8(at) == 1 else _FALS)
        if peek8(at) == 1:
            return at + 1, to + 4
        poke8(to + 4, 101)
        return at + 1, to + 5
    size = peek64(node + _FIRST)
    if kind != FIXED:
        size, at = number(at, stop)
        if at < 0:
            return BAD, BAD
    if kind == WHOLE:
        return at, signed_text(size, to)
    if kind == ENUM:
        if size < 0 or size >= peek64(node + _COUNT):
            return BAD, BAD
        symbol = children + _ROW_BYTES * (peek64(node + _FIRST) + size)
        length = peek64(symbol + _COUNT)
        if limit - to < _ROOM + length:
            return FULL, FULL
        move(to, names + peek64(symbol + _FIRST), length)
        return at, to + length
    if size < 0 or size > stop - at:
        return BAD, BAD
    to = _sized(kind, at, size, to, limit)
    return (at + size, to) if to > 0 else (FULL, FULL)


@kernel
def _branch(nodes: Int, children: Int, node: Int, at: Int, stop: Int) -> Pair:
    """The node of a union's value, and the address of that value; the node itself when it is no union."""
    while peek64(node) == UNION:
        if at < stop and peek8(at) < 4:  # one of the first two branches, the usual case
            index = peek8(at) >> 1 if peek8(at) & 1 == 0 else -1
            at += 1
        else:
            index, at = number(at, stop)
        if at < 0 or index < 0 or index >= peek64(node + _COUNT):
            return node, BAD
        node = nodes + _ROW_BYTES * peek64(children + _ROW_BYTES * (peek64(node + _FIRST) + index))
    return node, at


@kernel
def _begin(children: Int, node: Int, frame: Int, to: Int) -> Int:
    """Open a record, list or map; return the address after its bracket."""
    kind, first = peek64(node), children + _ROW_BYTES * peek64(node + _FIRST)
    poke64(frame + _KIND, kind)
    poke64(frame + _NEXT, first)
    poke64(frame + _END, first + _ROW_BYTES * peek64(node + _COUNT))
    poke64(frame + _LEFT, 0)
    poke64(frame + _WRITTEN, 0)
    poke8(to, _LIST if kind == ARRAY else _OPEN)
    return to + 1


@kernel
def _items(frame: Int, at: Int, stop: Int) -> Int:
    """Read the number of items of the next block; return the address after that, or BAD."""
    count, at = number(at, stop)
    if at > 0 and count < 0:
        count = -count
        _, at = number(at, stop)
    # Every item has at least one byte; lists of a type without bytes (null) are not supported.
    if at < 0 or count < 0 or count > stop - at:
        return BAD
    poke64(frame + _LEFT, count)
    return at


@kernel
def _member(nodes: Int, children: Int, names: Int, frame: Int, at: Int, stop: Int, to: Int, limit: Int) -> Pair:
    """Advance to the next value of a frame: its node (0 when there is none), and the addresses as in `_scalar`."""
    kind = peek64(frame + _KIND)
    if kind in (RECORD, ROW):
        child, end = peek64(frame + _NEXT), peek64(frame + _END)
        while child < end:
            node, at = _branch(nodes, children, nodes + _ROW_BYTES * peek64(child), at, stop)
            if at < 0:
                return 0, BAD, BAD
            if kind == ROW and peek64(node) == NULL:
                child += _ROW_BYTES
                continue
            size = peek64(child + _COUNT)
            if limit - to < _ROOM + size:
                return 0, FULL, FULL
            if peek64(frame + _WRITTEN):
                poke8(to, _COMMA)
                to += 1
            poke64(frame + _WRITTEN, 1)
            poke64(frame + _NEXT, child + _ROW_BYTES)
            move(to, names + peek64(child + _FIRST), size)
            return node, at, to + size
        poke8(to, _CLOSE)
        return 0, at, to + 1
    if peek64(frame + _LEFT) == 0:
        at = _items(frame, at, stop)
        if at < 0:
            return 0, BAD, BAD
        if peek64(frame + _LEFT) == 0:
            poke8(to, _LIST_END if kind == ARRAY else _CLOSE)
            return 0, at, to + 1
    poke64(frame + _LEFT, peek64(frame + _LEFT) - 1)
    if peek64(frame + _WRITTEN):
        poke8(to, _COMMA)
        to += 1
    poke64(frame + _WRITTEN, 1)
    if kind == MAP:
        size, at = number(at, stop)
        if at < 0 or size < 0 or size > stop - at:
            return 0, BAD, BAD
        to = _sized(TEXT, at, size, to, limit)
        if to < 0:
            return 0, FULL, FULL
        at += size
        poke8(to, _COLON)
        to += 1
    node, at = _branch(nodes, children, nodes + _ROW_BYTES * peek64(peek64(frame + _NEXT)), at, stop)
    return (node, at, to) if at > 0 else (0, BAD, BAD)


@kernel
def _text(nodes: Int, children: Int, names: Int, at: Int, stop: Int, to: Int, limit: Int, frames: Int) -> Int:
    """Write the text of one message from its body; return the address after the text, BAD or FULL."""
    depth = 0
    node, at = _branch(nodes, children, nodes, at, stop)
    while at >= 0:
        if peek64(node) >= ARRAY:
            if depth == DEEPEST:
                return BAD
            if limit - to < _ROOM:
                return FULL
            to = _begin(children, node, frames + 8 * FRAME * depth, to)
            depth += 1
        else:
            at, to = _scalar(children, names, node, at, stop, to, limit)
        node = 0
        while at >= 0 and node == 0:
            if depth == 0:
                return to if at == stop else BAD
            if limit - to < _ROOM:
                return FULL
            frame = frames + 8 * FRAME * (depth - 1)
            node, at, to = _member(nodes, children, names, frame, at, stop, to, limit)
            if node == 0:
                depth -= 1
    return at


@kernel.entry
def json_texts(
    nodes: Int, children: Int, names: Int, base: Int, begins: Ints, ends: Ints, first: Int, out: Int, used: Int,
    room: Int, text_begins: Ints, text_ends: Ints, frames: Int,
) -> Int:  # fmt: skip
    """Write messages from number `first` on to `out`, after the `used` bytes there; return how many had room.

    begins, ends: int[n], where bodies are from `base` on; text_begins, text_ends: where the texts are from `out` on,
    -1 for bytes that are none of the schema. nodes, children, names and frames, int64[DEEPEST, FRAME], are addresses.
    """
    to, limit = out + used, out + room
    for item in range(first, len(begins)):
        end = _text(nodes, children, names, base + begins[item], base + ends[item], to, limit, frames)
        if end == FULL:
            return item
        text_begins[item] = to - out if end > 0 else -1
        text_ends[item] = end - out if end > 0 else -1
        to = end if end > 0 else to
    return len(begins)
