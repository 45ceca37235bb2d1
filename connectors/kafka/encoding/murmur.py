"""The hash that Java producers choose partitions by (murmur2 of Austin Appleby, with Kafka's seed)."""

from __future__ import annotations

_SEED, _M, _R = 0x9747B28C, 0x5BD1E995, 24
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32 bits without a sign. Java takes `(hash & 0x7fffffff) % partitions`; librdkafka's `murmur2` does the same."""
    length = len(data)
    found = (_SEED ^ length) & _WORD
    whole = length - length % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _WORD
        k ^= k >> _R
        found = (found * _M & _WORD) ^ (k * _M & _WORD)
    if length > whole:
        found ^= int.from_bytes(data[whole:], "little")
        found = found * _M & _WORD
    found ^= found >> 13
    found = found * _M & _WORD
    return found ^ found >> 15
