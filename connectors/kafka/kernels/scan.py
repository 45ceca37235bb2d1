"""Find the values of named members in many JSON objects in one pass. Positions count from `base`, an address.

Other members are skipped: strings eight bytes at a time, objects and lists by their brackets.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.kernels import (
    ABSENT,
    ARRAY,
    ESCAPED,
    FALSE,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
    TRUE,
    kernel,
)
from connectors.kafka.kernels.escapes import is_name, same_name
from connectors.kafka.kernels.vectors import (
    backs64,
    closes64,
    lowest,
    number_of,
    opens64,
    other_than_digits16,
    quotes64,
    string_stops16,
)
from connectors.shared.kernels.kernel_types import Bool, Int, Ints, Word
from connectors.shared.kernels.memory import peek8, same_bytes

_QUOTE, _BACK, _OPEN, _CLOSE, _LIST, _LIST_END, _COMMA, _COLON = 34, 92, 123, 125, 91, 93, 44, 58
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@kernel
def _space(base: Int, at: Int, stop: Int) -> Int:
    while at < stop:
        byte = peek8(base + at)
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            break
        at += 1
    return at


@kernel
def string_end(base: Int, at: Int, stop: Int) -> Int:
    """Twice the position of the quote that ends the string at `at`, plus one if it has escapes; -1 if it never ends."""
    escaped = 0
    while at < stop:
        if at + 16 <= stop:
            found = string_stops16(base + at)
            if found == _ZERO:
                at += 16
                continue
            at += lowest(found)
        byte = peek8(base + at)
        if byte == _QUOTE:
            return at * 2 + escaped
        if byte == _BACK:
            escaped = 1
            at += 1
        at += 1
    return -1


@kernel
def _between_quotes(quotes: Word, open_before: Word) -> Word:
    """From the bits of quotes, the bits of the bytes within strings; `open_before` is all ones within a string."""
    bits = quotes
    bits ^= bits << np.uint64(1)
    bits ^= bits << np.uint64(2)
    bits ^= bits << np.uint64(4)
    bits ^= bits << np.uint64(8)
    bits ^= bits << np.uint64(16)
    bits ^= bits << np.uint64(32)
    return bits ^ open_before


@kernel
def _nested_end(base: Int, at: Int, stop: Int) -> Int:
    """The position after the object or list that begins at `at`; -1 if it never ends."""
    depth, inside = 0, _ZERO
    while at + 64 <= stop:
        if backs64(base + at) != _ZERO:
            break
        strings = _between_quotes(quotes64(base + at), inside)
        opens, closes = opens64(base + at) & ~strings, closes64(base + at) & ~strings
        while closes != _ZERO:
            last = lowest(closes)
            before = (_ONE << np.uint64(last)) - _ONE
            depth += number_of(opens & before) - 1
            if depth == 0:
                return at + last + 1
            opens &= ~before
            closes &= closes - _ONE
        depth += number_of(opens)
        inside = _ZERO - (strings >> np.uint64(63))
        at += 64
    return _nested_end_slowly(base, at, stop, depth, inside != _ZERO)


@kernel
def _nested_end_slowly(base: Int, at: Int, stop: Int, depth: Int, inside: Bool) -> Int:
    """Do the same as `_nested_end` byte by byte, starting `depth` levels deep and perhaps inside a string."""
    while at < stop:
        byte = peek8(base + at)
        if inside or byte == _QUOTE:
            found = string_end(base, at if inside else at + 1, stop)
            if found < 0:
                return -1
            at, inside = found >> 1, False
        elif byte in (_OPEN, _LIST):
            depth += 1
        elif byte in (_CLOSE, _LIST_END):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return -1


@kernel
def _word(base: Int, at: Int, stop: Int, length: Int, first: Int, last: Int) -> Int:
    """Whether a literal of this length is at `at`; its second and last bytes distinguish it from anything else."""
    return at + length <= stop and peek8(base + at + 1) == first and peek8(base + at + length - 1) == last


@kernel.entry
def value_end(base: Int, at: Int, stop: Int) -> Int:
    """16 times the position where the value at `at` ends, plus its kind; -1 when there is no value.

    A string ends at its closing quote, everything else after its last byte.
    """
    if at >= stop:
        return -1
    byte = peek8(base + at)
    if byte == _QUOTE:
        found = string_end(base, at + 1, stop)
        return -1 if found < 0 else (found >> 1) * 16 + (ESCAPED if found & 1 else STRING)
    if byte in (_OPEN, _LIST):
        end = _nested_end(base, at, stop)
        return -1 if end < 0 else end * 16 + (OBJECT if byte == _OPEN else ARRAY)
    if byte == 110 and _word(base, at, stop, 4, 117, 108):
        return (at + 4) * 16 + NULL
    if byte == 116 and _word(base, at, stop, 4, 114, 101):
        return (at + 4) * 16 + TRUE
    if byte == 102 and _word(base, at, stop, 5, 97, 101):
        return (at + 5) * 16 + FALSE
    if byte != 45 and (byte < 48 or byte > 57):
        return -1
    kind = INTEGER
    at += 1
    if at + 16 <= stop:
        at += min(16, lowest(other_than_digits16(base + at)))
    while at < stop:
        byte = peek8(base + at)
        if byte == 46 or byte == 101 or byte == 69:
            kind = FRACTION
        elif (byte < 48 or byte > 57) and byte != 43 and byte != 45:
            break
        at += 1
    return at * 16 + kind


@kernel
def _child(
    base: Int, at: Int, end: Int, escaped: Bool, first: Int, count: Int, hint: Int, names: Int, name_at: Ints,
    name_end: Ints,
) -> Int:  # fmt: skip
    """The child of a node with the name at `at`. Tries `hint` first, because members usually keep their order."""
    for step in range(count):
        node = first + (hint + step) % count
        if escaped:
            if same_name(base, at, end, names, name_at[node], name_end[node]):
                return node
        elif name_end[node] - name_at[node] == end - at:
            same = True
            for place in range(end - at):
                if peek8(base + at + place) != peek8(names + name_at[node] + place):
                    same = False
                    break
            if same:
                return node
    return -1


@kernel
def _object(
    base: Int, message: Int, at: Int, stop: Int, names: Int, first: Ints, count: Ints, name_at: Ints, name_end: Ints,
    plain: Ints, stack: Ints, hints: Ints, starts: Ints, stops: Ints, kinds: Ints, unknown: Ints,
) -> Int:  # fmt: skip
    """Scan one message. Returns 0, or the position of the first invalid byte plus one."""
    at = _space(base, at, stop)
    if at >= stop or peek8(base + at) != _OPEN:
        return at + 1
    depth, stack[0], hints[0], fresh = 0, 0, 0, True
    at += 1
    while True:
        at = _space(base, at, stop)
        if at >= stop:
            return at + 1
        byte = peek8(base + at)
        if byte == _CLOSE:
            at += 1
            stops[stack[depth], message] = at
            if depth == 0:
                at = _space(base, at, stop)
                return 0 if at == stop else at + 1
            depth -= 1
            fresh = False
            continue
        if not fresh:
            if byte != _COMMA:
                return at + 1
            at = _space(base, at + 1, stop)
        if at >= stop or peek8(base + at) != _QUOTE:
            return at + 1
        fresh = False
        node, key_at = stack[depth], at + 1
        child, key_end = -1, -1
        if count[node] > 0:
            hint = hints[depth]
            expected = first[node] + (hint if hint < count[node] else 0)
            size = name_end[expected] - name_at[expected]
            if (
                plain[expected]
                and key_at + size < stop
                and peek8(base + key_at + size - 1) != _BACK
                and peek8(base + key_at + size) == _QUOTE
                and same_bytes(base + key_at, names + name_at[expected], size)
            ):
                child, key_end = expected, key_at + size
        if child < 0:
            found = string_end(base, key_at, stop)
            if found < 0:
                return key_at
            key_end, escaped = found >> 1, (found & 1) == 1
            if escaped and not is_name(base, key_at, key_end):
                return key_at
            if count[node] > 0:
                child = _child(
                    base, key_at, key_end, escaped, first[node], count[node], hints[depth], names, name_at, name_end
                )  # fmt: skip
        at = key_end + 1
        if at >= stop or peek8(base + at) != _COLON:
            at = _space(base, at, stop)
            if at >= stop or peek8(base + at) != _COLON:
                return at + 1
        at = _space(base, at + 1, stop)
        if child >= 0:
            hints[depth] = child - first[node] + 1
            if count[child] > 0 and at < stop and peek8(base + at) == _OPEN:
                starts[child, message], kinds[child, message] = at, OBJECT
                depth += 1
                stack[depth], hints[depth], fresh = child, 0, True
                at += 1
                continue
        end = value_end(base, at, stop)
        if end < 0:
            return at + 1
        kind = end & 15
        text = kind in (STRING, ESCAPED)
        if child < 0 and node == 0 and kind != NULL and unknown[message] < 0:
            unknown[message] = key_at
        if child >= 0:
            starts[child, message] = at + 1 if text else at
            stops[child, message], kinds[child, message] = end >> 4, kind
        at = (end >> 4) + 1 if text else end >> 4


@kernel.entry
def walk(
    base: Int, begins: Ints, ends: Ints, names: Int, first: Ints, count: Ints, name_at: Ints, name_end: Ints,
    plain: Ints, stack: Ints, hints: Ints, starts: Ints, stops: Ints, kinds: Ints, unknown: Ints, faults: Ints,
) -> None:  # fmt: skip
    """Find every node's value in every message.

    A tree of names is given as arrays: the children of node v are the nodes first[v] to first[v] + count[v], and node
    0 is the message itself; plain[v] is 1 for a name without a backslash. Filled in: starts, stops, kinds
    [node, message] (kinds come in as ABSENT; strings without their quotes), unknown[message] (the first member of the
    message itself that is not NULL and not in the tree; comes in as -1) and faults[message] (0, or one more than the
    position that is no JSON).
    """
    for message in range(len(begins)):
        faults[message] = _object(
            base, message, begins[message], ends[message], names, first, count, name_at, name_end, plain,
            stack, hints, starts, stops, kinds, unknown,
        )  # fmt: skip


@kernel.entry
def elements(
    base: Int, begins: Ints, ends: Ints, kinds: Ints, starts: Ints, stops: Ints, found: Ints, faults: Ints
) -> Int:
    """Find the elements of lists, with their positions and the list of each; return their number.

    Lists are the ARRAY values among `kinds`. An element that is no object gets an empty range. `starts`, `stops` and
    `found` may be empty, to count only. A list that is no valid JSON has no elements, and sets faults[list] to 1.
    """
    total = 0
    keep = len(starts) > 0
    for item in range(len(begins)):
        if kinds[item] != ARRAY:
            continue
        first = total
        at, stop = _space(base, begins[item] + 1, ends[item]), ends[item] - 1
        while at < stop:
            end = value_end(base, at, stop)
            if end < 0:
                faults[item] = 1
                break
            kind = end & 15
            behind = end >> 4
            if keep:
                starts[total], found[total] = at, item
                stops[total] = behind if kind == OBJECT else at
            total += 1
            at = _space(base, behind + 1 if kind in (STRING, ESCAPED) else behind, stop)
            if at < stop:
                if peek8(base + at) != _COMMA:
                    faults[item] = 1
                    break
                at = _space(base, at + 1, stop)
        if faults[item]:
            total = first
    return total


@kernel.entry
def members(base: Int, at: Int, stop: Int, starts: Ints, stops: Ints, values: Ints, ends: Ints, kinds: Ints) -> Int:
    """Find the members of one object in order; return their number, or -1 when it is no valid JSON.

    Fills in the positions of names and values. The arrays need room for one member every four bytes.
    """
    at = _space(base, at, stop)
    if at >= stop or peek8(base + at) != _OPEN:
        return -1
    total = 0
    at = _space(base, at + 1, stop)
    while at < stop and peek8(base + at) != _CLOSE:
        if total:
            if peek8(base + at) != _COMMA:
                return -1
            at = _space(base, at + 1, stop)
        if at >= stop or peek8(base + at) != _QUOTE:
            return -1
        found = string_end(base, at + 1, stop)
        if found < 0:
            return -1
        starts[total], stops[total] = at + 1, found >> 1
        at = _space(base, (found >> 1) + 1, stop)
        if at >= stop or peek8(base + at) != _COLON:
            return -1
        at = _space(base, at + 1, stop)
        end = value_end(base, at, stop)
        if end < 0:
            return -1
        kind = end & 15
        text = kind in (STRING, ESCAPED)
        values[total], ends[total], kinds[total] = at + 1 if text else at, end >> 4, kind
        total += 1
        at = _space(base, (end >> 4) + 1 if text else end >> 4, stop)
    return total if at < stop else -1


@kernel.entry
def same_text(base: Int, starts: Ints, stops: Ints, kinds: Ints, same: Ints) -> None:
    """Set same[i] to 1 if value i has the same bytes and kind as value i - 1, in every row of the arrays."""
    for item in range(1, starts.shape[1]):
        equal = True
        for row in range(starts.shape[0]):
            length = stops[row, item] - starts[row, item]
            if kinds[row, item] != kinds[row, item - 1] or length != stops[row, item - 1] - starts[row, item - 1]:
                equal = False
                break
            if kinds[row, item] != ABSENT:
                for place in range(length):
                    if peek8(base + starts[row, item] + place) != peek8(base + starts[row, item - 1] + place):
                        equal = False
                        break
            if not equal:
                break
        same[item] = 1 if equal else 0
