"""Archived binary log files: read, verified and indexed buffer by buffer."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cdc.errors import CorruptLog, SourceUnavailable, UnsupportedChange
from connectors.mysql import events
from connectors.mysql.kernels import framing
from connectors.mysql.log.buffers import BUFFER_BYTES, acquire_buffer, carry
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.log.receive_buffer import Bytes, ReceiveBuffer


def read_buffers(
    path: str | PathLike[str], start: int = 4, end: int | None = None, buffer_bytes: int = BUFFER_BYTES
) -> Iterator[ReceiveBuffer]:
    """Yield the events of a binary log file that begin at or after `start` and end at or before `end`, in order.

    Args:
        path: the file; its name becomes `ReceiveBuffer.file`.
        start: position of an event, as from an earlier `end_position`; 4 is the first.
        end: exact position after the last wanted event; None reads to the end of the file.
        buffer_bytes: bytes read at once; a buffer is bigger only if one event is.

    Raises:
        CorruptLog: not a binary log, a wrong checksum, an impossible length, or a file that ends inside an event.
        UnsupportedChange: an encrypted log, an incident, or an unknown event.
        SourceUnavailable: the file cannot be read.
    """
    place = Path(fspath(path))
    try:
        with place.open("rb", buffering=0) as file:
            yield from _read(file, place.name, max(start, len(events.MAGIC)), end, buffer_bytes)
    except OSError as error:
        raise SourceUnavailable(
            f"cannot read the binary log file: {error.strerror or error}", where=str(place), hint="check the path"
        ) from error


def _read(file: BinaryIO, name: str, start: int, end: int | None, buffer_bytes: int) -> Iterator[ReceiveBuffer]:
    _check_magic(file.read(len(events.MAGIC)), name)
    indexer = Indexer(framing.FILE, name, len(events.MAGIC))
    if start > len(events.MAGIC):
        _read_format(file, indexer)
        indexer.position = start
        file.seek(start)
    data, filled, left = acquire_buffer(buffer_bytes), 0, None if end is None else end - start
    while True:
        want = len(data) - filled if left is None else min(len(data) - filled, left)
        got = _fill(file, data, filled, want)
        filled += got
        if left is not None:
            left -= got
        yield from indexer.buffers(data, filled)
        rest = filled - indexer.at
        if got < want or left == 0:
            if end is not None and indexer.position < end and left:
                raise CorruptLog(
                    f"the file ends before position {end}", where=indexer.where, hint="copy the file again"
                )
            if rest:
                raise CorruptLog(
                    f"the file ends inside an event ({rest} bytes of it are there)",
                    where=indexer.where,
                    hint="copy the file again, after the server has closed it; or the requested end is inside an event",
                )
            return
        data, filled = carry(data, indexer.at, filled, buffer_bytes), rest


def _fill(file: BinaryIO, data: Bytes, at: int, want: int) -> int:
    """Read `want` bytes, fewer at the end of the file; returns their number."""
    view, got = memoryview(data.data), 0
    while got < want:
        count = file.readinto(view[at + got : at + want])  # type: ignore[attr-defined]
        if not count:
            break
        got += count
    return got


def _check_magic(magic: bytes, name: str) -> None:
    if magic == events.ENCRYPTED_MAGIC:
        raise UnsupportedChange(
            "the binary log file is encrypted", where=name, hint="read it from the server, or decrypt it first"
        )
    if magic != events.MAGIC:
        raise CorruptLog("not a binary log file: it does not begin with fe 62 69 6e", where=name)


def _read_format(file: BinaryIO, indexer: Indexer) -> None:
    """Read the format description at the start of the file, for its checksum setting."""
    header = file.read(events.HEADER_SIZE)
    size = int.from_bytes(header[9:13], "little")
    if len(header) < events.HEADER_SIZE or header[4] != events.FORMAT_DESCRIPTION or size > 1 << 16:
        raise CorruptLog("the file does not begin with a format description event", where=indexer.where)
    event = np.frombuffer(bytearray(header + file.read(size - events.HEADER_SIZE)), np.uint8)
    for _ in indexer.buffers(event, len(event)):
        pass
    if indexer.at != len(event):
        raise CorruptLog("the file ends inside its format description event", where=indexer.where)
