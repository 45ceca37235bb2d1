"""Compressed load bodies: what a server unpacks is what was written, however it was cut."""

from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pytest
from together import together

from connectors.shared.streamload.pack import Packing, packer


def unpacked(packing: Packing, packed: bytes) -> bytes:
    if packing == "gzip":
        return zlib.decompress(packed, wbits=31)
    if packing == "":
        return packed
    with pa.input_stream(pa.BufferReader(packed), compression=packing) as stream:
        return bytes(stream.read())


@together("packing", ["", "gzip", "lz4", "zstd"])
@together("sizes", [(), (0,), (1,), (5_000_000,), (1, 70_000, 0, 3_000_000, 2)])
def test_a_body_comes_out_as_it_went_in(packing: Packing, sizes: tuple[int, ...]) -> None:
    pieces = [random.Random(size).randbytes(size // 2) + b"1\t" * (size // 4) for size in sizes]
    stream = packer(packing)
    packed = b"".join(bytes(stream.pack(memoryview(piece))) for piece in pieces) + stream.end()
    assert unpacked(packing, packed) == b"".join(pieces)


@pytest.mark.parametrize("packing", ["gzip", "lz4", "zstd"])
def test_text_gets_smaller_while_it_is_written(packing: Packing) -> None:
    numbers = random.Random(1)
    stream, text = packer(packing), "\n".join(str(numbers.getrandbits(60)) for _ in range(50_000)).encode()
    sent = sum(len(stream.pack(text)) for _ in range(5))
    assert 0 < sent < 5 * len(text)
