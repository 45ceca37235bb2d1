"""The kernel that writes the keys and values of records as a pickle, which Python turns into objects in one step."""

from __future__ import annotations

from connectors.kafka.encoding.kernels import kernel
from connectors.kafka.encoding.kernels.messages import MEMO_BYTES, PART_BYTES, PICKS_BYTES, parts_text
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import peek8, peek64, poke8, poke16, poke32

_DICT, _BYTES, _SET_ITEM = 0x7D, 0x42, 0x73
_GET_KEY, _GET_VALUE = 0x0068, 0x0168
"""Pickle operations that get the names remembered under the numbers 0 and 1."""

RECORD_BYTES = 17
"""The bytes of a record besides its two texts."""


@kernel.entry
def write_records(
    keys: Int,
    values: Int,
    parts: Int,
    columns: Int,
    memo: Int,
    picks: Int,
    events: Int,
    skip: Int,
    to: Int,
    sizes: Ints,
) -> Int:
    """Write a dictionary of `key` and `value` per message, as pickle operations; return the address after them.

    keys: how many parts a key has, none for messages without one; values: how many a value has. Addresses of parts:
    int64[keys + values, 4], those of the key first; columns: int64[c, 11]; memo: int64[keys + values, 3], zeros;
    picks: int64[m, 3]; events: int64[m], equal for messages of one event; skip: a byte per message, 1 for no value.
    sizes: int64[m] takes the bytes of key and value. The caller has made room.
    """
    of_values, value_memo = parts + PART_BYTES * keys, memo + MEMO_BYTES * keys
    for message in range(sizes.shape[0]):
        rows, event, size = picks + PICKS_BYTES * message, peek64(events + 8 * message), 0
        poke8(to, _DICT)
        to += 1
        if keys > 0:
            end = parts_text(parts, keys, columns, memo, rows, message, event, to + 7)
            size += end - to - 7
            to = _item(_GET_KEY, to, end)
        if peek8(skip + message) == 0:
            end = parts_text(of_values, values, columns, value_memo, rows, message, event, to + 7)
            size += end - to - 7
            to = _item(_GET_VALUE, to, end)
        sizes[message] = size
    return to


@kernel
def _item(name: Int, at: Int, end: Int) -> Int:
    """Write the pickle operations around a text that begins seven bytes after `at`."""
    poke16(at, name)
    poke8(at + 2, _BYTES)
    poke32(at + 3, end - at - 7)
    poke8(end, _SET_ITEM)
    return end + 1
