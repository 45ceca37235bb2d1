"""Expands TRANSACTION_PAYLOAD events (MySQL) and compressed row and query events (MariaDB).

Small events are expanded in groups, with one decompression call each and kernels for the rest; a payload that is bigger
than a piece is streamed, so memory does not grow with the transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import zstandard

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql import events
from connectors.mysql.kernels import framing, payload
from connectors.mysql.kernels.payload import COPY, HEAD, METHOD, PLAIN, STORED, ZSTD
from connectors.mysql.log.receive_buffer import Bytes, Ints, ReceiveBuffer

PIECE: Final = 8 << 20
"""Maximum bytes of expanded events in one buffer, unless a single event is bigger."""


def expand(buffer: ReceiveBuffer) -> Iterator[ReceiveBuffer]:
    """Yield the same events in order with compressed ones expanded, in buffers of about PIECE bytes.

    All events of one payload have the payload's end position and may come in several buffers. Raises CorruptLog when
    something cannot be decompressed or its size differs from the stated one.
    """
    plan = np.empty((len(buffer), payload.PLAN_WIDTH), np.int64)
    bad = payload.plan_expansion(buffer.data, buffer.start, buffer.end, buffer.type, plan)
    if bad >= 0:
        raise _corrupt(buffer, bad, "its header cannot be read")
    first = 0
    for index in np.flatnonzero((plan[:, METHOD] == ZSTD) & (plan[:, PLAIN] > PIECE)).tolist():
        yield from _groups(buffer, plan, first, index)
        yield from _stream(buffer, plan[index], index)
        first = index + 1
    yield from _groups(buffer, plan, first, len(buffer))


def _groups(buffer: ReceiveBuffer, plan: Ints, first: int, last: int) -> Iterator[ReceiveBuffer]:
    """Yield events `first` up to `last` in buffers of about PIECE bytes."""
    ends = np.cumsum(plan[first:last, HEAD] + plan[first:last, PLAIN])
    at = 0
    while at < last - first:
        begin = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, begin + PIECE, side="right")))
        offsets = np.concatenate((np.zeros(1, np.int64), ends[at : until - 1] - begin))
        yield _group(buffer, plan[first + at : first + until], first + at, offsets, int(ends[until - 1]) - begin)
        at = until


def _group(buffer: ReceiveBuffer, plan: Ints, first: int, offsets: Ints, size: int) -> ReceiveBuffer:
    """Expand the events of `plan`, which begin at number `first` of the buffer, into one array of `size` bytes."""
    methods = plan[:, METHOD]
    if not methods.any():
        return buffer.part(first, first + len(plan))
    out = np.empty(size, np.uint8)
    source, target = memoryview(buffer.data.data), memoryview(out.data)
    decompressor = zstandard.ZstdDecompressor()
    for index in np.flatnonzero(methods != COPY).tolist():
        head, begin, end, plain, method = plan[index].tolist()
        at = int(offsets[index]) + head
        try:
            if method == ZSTD:
                reader = decompressor.stream_reader(source[begin:end], read_across_frames=True)
                got = reader.readinto(target[at : at + plain]) + len(reader.read(1))
            elif method == STORED:
                got = end - begin if end - begin == plain else -1
                if got >= 0:
                    target[at : at + plain] = source[begin:end]
            else:
                inflated = zlib.decompressobj().decompress(source[begin:end], plain + 1)
                got = len(inflated)
                if got == plain:
                    target[at : at + plain] = inflated
        except (zstandard.ZstdError, zlib.error) as error:
            raise _corrupt(buffer, first + index, str(error)) from error
        if got != plain:
            raise _corrupt(buffer, first + index, f"it states {plain} bytes and holds {got if got >= 0 else 'others'}")
    return _assemble(buffer.part(first, first + len(plan)), plan, offsets, out)


def _assemble(buffer: ReceiveBuffer, plan: Ints, offsets: Ints, out: Bytes) -> ReceiveBuffer:
    count = payload.count_events(out, plan, offsets)
    if count < 0:
        raise _corrupt(buffer, -1 - count, "the events inside have impossible lengths")
    start, end, position, commit = (np.empty(count, np.int64) for _ in range(4))
    kind, query = np.empty(count, np.uint8), np.empty(count, np.uint8)
    done = payload.assemble(
        buffer.data, buffer.start, buffer.end, buffer.type, buffer.end_position, buffer.commit_ms, buffer.query_kind,
        plan, offsets, out, start, end, kind, position, commit, query,
    )  # fmt: skip
    if done < 0:
        raise _corrupt(buffer, -1 - done, "it holds an event that cannot be inside of another")
    return ReceiveBuffer(
        buffer.file, buffer.file_number, out, start, end, kind, position, commit, query, buffer.checksum
    )  # fmt: skip


def _stream(buffer: ReceiveBuffer, plan: Ints, index: int) -> Iterator[ReceiveBuffer]:
    """Decompress a payload bigger than a piece, piece by piece."""
    _, begin, end, plain, _ = plan.tolist()
    reader = zstandard.ZstdDecompressor().stream_reader(
        memoryview(buffer.data.data)[begin:end], read_across_frames=True
    )
    state = np.zeros(framing.STATE_SIZE, np.int64)
    state[framing.POSITION], state[framing.COMMIT_MS] = buffer.end_position[index], buffer.commit_ms[index]
    data, filled, total = np.empty(PIECE, np.uint8), 0, 0
    while True:
        try:
            got = reader.readinto(memoryview(data.data)[filled:])
        except zstandard.ZstdError as error:
            raise _corrupt(buffer, index, str(error)) from error
        filled += got
        total += got
        if filled == len(data) or got == 0:
            state[framing.AT] = 0
            yield from _indexed(buffer, index, data, filled, state)
            rest = filled - int(state[framing.AT])
            if got == 0:
                break
            fresh = np.empty(max(PIECE, 2 * rest), np.uint8)
            fresh[:rest] = data[filled - rest : filled]
            data, filled = fresh, rest
    if total != plain or rest:
        raise _corrupt(buffer, index, f"it states {plain} bytes and holds {total}")


def _indexed(buffer: ReceiveBuffer, index: int, data: Bytes, filled: int, state: Ints) -> Iterator[ReceiveBuffer]:
    """Yield buffers of the complete events in `data[:filled]`, a piece of payload number `index`."""
    capacity = 1 << 17
    while True:
        start, end, position, commit = (np.empty(capacity, np.int64) for _ in range(4))
        kind, query = np.empty(capacity, np.uint8), np.empty(capacity, np.uint8)
        count, stopped = framing.index_events(
            data, filled, framing.PAYLOAD, 0, state, start, end, kind, position, commit, query, capacity
        )
        if stopped not in (framing.MORE, framing.FULL) or state[framing.EXPAND]:
            raise _corrupt(buffer, index, "it holds an event that cannot be inside of another")
        if count:
            cut = slice(0, count)
            yield ReceiveBuffer(
                buffer.file, buffer.file_number, data, start[cut].copy(), end[cut].copy(), kind[cut].copy(),
                position[cut].copy(), commit[cut].copy(), query[cut].copy(), buffer.checksum,
            )  # fmt: skip
        if stopped == framing.MORE:
            return


def _corrupt(buffer: ReceiveBuffer, index: int, reason: str) -> CorruptLog | UnsupportedChange:
    return CorruptLog(
        f"a {events.type_name(int(buffer.type[index]))} event cannot be expanded: {reason}", where=buffer.where(index)
    )
