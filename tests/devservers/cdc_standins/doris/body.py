"""The body of a load: plain or compressed, in blocks; or only counted, as fast as it comes."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterator

import pyarrow as pa

from cdc_standins.doris.errors import LoadError
from cdc_standins.doris.headers import LoadHeaders
from cdc_standins.http_server import BLOCK_BYTES, Request


def blocks_of(request: Request, compression: str) -> Iterator[memoryview]:
    """Blocks of the body, uncompressed; each is valid until the next one."""
    if not compression:
        buffer = bytearray(BLOCK_BYTES)
        view = memoryview(buffer)
        for count in request.body.into(buffer):
            yield view[:count]
        return
    packed = request.body.read()
    try:
        yield memoryview(_unpacked(packed, compression))
    except (zlib.error, OSError, EOFError, ValueError) as error:
        raise LoadError("INTERNAL_ERROR", f"decompress failed: {error}") from error


def count_body(request: Request, headers: LoadHeaders) -> tuple[int, int]:
    """Rows (line delimiters, and a last line without one) and bytes of the body."""
    if headers.compression:
        text = bytes(b"".join(bytes(block) for block in blocks_of(request, headers.compression)))
        return text.count(headers.csv.delimiter), request.body.bytes_read
    delimiter = headers.csv.delimiter if headers.format != "json" else b"\n"
    keep = len(delimiter) - 1
    buffer = bytearray(4 * BLOCK_BYTES)
    rows, tail = 0, b""
    for count in request.body.into(buffer):
        rows += buffer.count(delimiter, 0, count)
        if keep:  # a delimiter may lie across two blocks
            rows += (tail + bytes(buffer[: min(keep, count)])).count(delimiter)
            tail = (tail + bytes(buffer[max(0, count - keep) : count]))[-keep:]
        else:
            tail = bytes(buffer[count - 1 : count])
    ended = not tail or tail.endswith(delimiter[-1:])
    return rows + (not ended), request.body.bytes_read


def _unpacked(packed: bytes, compression: str) -> bytes:
    if compression == "gz":
        return zlib.decompress(packed, wbits=31)
    if compression == "deflate":
        return zlib.decompress(packed)
    if compression == "bz2":
        return bz2.decompress(packed)
    with pa.input_stream(pa.BufferReader(packed), compression="lz4") as stream:
        return bytes(stream.read())
