"""Choose the partition of messages as Java producers do. Pure."""

from __future__ import annotations

from cdc.schema import TableId

_SEED, _M, _R = 0x9747B28C, 0x5BD1E995, 24
_WORD = 0xFFFFFFFF
"""The mask of 32 bits for murmur2 (Austin Appleby), which Kafka uses with its own seed."""


def partition_of(table: TableId, count: int) -> int:
    """The partition, out of `count`, for the messages of a table without a key."""
    return int(murmur2(str(table).encode()) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """The hash by which Java producers choose partitions: 32 bits, unsigned."""
    length = len(data)
    found = (_SEED ^ length) & _WORD
    aligned = length - length % 4
    for at in range(0, aligned, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _WORD
        k ^= k >> _R
        found = (found * _M & _WORD) ^ (k * _M & _WORD)
    if length > aligned:
        found ^= int.from_bytes(data[aligned:], "little")
        found = found * _M & _WORD
    found ^= found >> 13
    found = found * _M & _WORD
    return found ^ found >> 15
