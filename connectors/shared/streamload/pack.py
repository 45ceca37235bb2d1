"""Compression of load bodies while sending, for networks that are slower than a core. Executor and driver."""

from __future__ import annotations

import io
import zlib
from typing import Literal, Protocol

import pyarrow as pa

Packing = Literal["", "gzip", "lz4", "zstd"]
"""gzip (RFC 1952), LZ4 frames, Zstandard frames (RFC 8878); empty for none."""


class Packer(Protocol):
    """Compresses one body. Not thread-safe."""

    def pack(self, data: bytes | memoryview) -> bytes | memoryview:
        """Return the bytes that can be sent after `data`; may be empty."""

    def end(self) -> bytes:
        """Return the remaining bytes."""


def packer(packing: Packing) -> Packer:
    """Return a packer for a new body."""
    if packing == "":
        return _Plain()
    return _Gzip() if packing == "gzip" else _Frames(packing)


class _Plain:
    def pack(self, data: bytes | memoryview) -> bytes | memoryview:
        return data

    def end(self) -> bytes:
        return b""


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(1, wbits=31)

    def pack(self, data: bytes | memoryview) -> bytes:
        return self._stream.compress(data)

    def end(self) -> bytes:
        return self._stream.flush()


class _Pieces(io.RawIOBase):
    """The output of a stream, until it is drained."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._pieces.append(piece)
        return len(piece)

    def drain(self) -> bytes:
        """Return everything written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class _Frames:
    def __init__(self, codec: str) -> None:
        self._pieces = _Pieces()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._pieces, mode="w"), codec)

    def pack(self, data: bytes | memoryview) -> bytes:
        self._stream.write(pa.py_buffer(data))
        return self._pieces.drain()

    def end(self) -> bytes:
        # Closing the stream also closes `_pieces`, which keeps its content.
        self._stream.close()
        return self._pieces.drain()
