"""Expands TRANSACTION_PAYLOAD events (MySQL) and compressed row and query events (MariaDB) into plain ones.

Small events are expanded many at a time, with one decompression call each and kernels for the rest; a payload that is
bigger than a piece is streamed, so memory does not grow with the transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
import zstandard

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql.kernels import framing, payload
from connectors.mysql.kernels.payload import COPY, HEAD, METHOD, PLAIN, STORED, ZSTD
from connectors.mysql.log import events
from connectors.mysql.log.receive_buffer import Bytes, EventChunk, Ints

PIECE: Final = 8 << 20
"""Bytes of expanded events in one chunk, unless a single event is bigger."""


def expand(chunk: EventChunk) -> Iterator[EventChunk]:
    """The same events in order with compressed ones expanded, as chunks of about PIECE bytes.

    Events out of one payload all have the payload's end position and may come in several chunks.
    Raises CorruptLog when something cannot be decompressed or its size is not the one stated.
    """
    plan = np.empty((len(chunk), payload.PLAN_WIDTH), np.int64)
    bad = payload.plan_expansion(chunk.buffer, chunk.start, chunk.end, chunk.type, plan)
    if bad >= 0:
        raise _corrupt(chunk, bad, "its header cannot be read")
    first = 0
    for index in np.flatnonzero((plan[:, METHOD] == ZSTD) & (plan[:, PLAIN] > PIECE)).tolist():
        yield from _groups(chunk, plan, first, index)
        yield from _stream(chunk, plan[index], index)
        first = index + 1
    yield from _groups(chunk, plan, first, len(chunk))


def _groups(chunk: EventChunk, plan: Ints, first: int, last: int) -> Iterator[EventChunk]:
    """Events `first` up to `last` in chunks of about PIECE bytes."""
    ends = np.cumsum(plan[first:last, HEAD] + plan[first:last, PLAIN])
    at = 0
    while at < last - first:
        begin = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, begin + PIECE, side="right")))
        offsets = np.concatenate((np.zeros(1, np.int64), ends[at : until - 1] - begin))
        yield _group(chunk, plan[first + at : first + until], first + at, offsets, int(ends[until - 1]) - begin)
        at = until


def _group(chunk: EventChunk, plan: Ints, first: int, offsets: Ints, size: int) -> EventChunk:
    """Events of `plan`, the first of which is number `first` of the chunk, expanded into one buffer of `size` bytes."""
    methods = plan[:, METHOD]
    if not methods.any():
        return chunk.part(first, first + len(plan))
    out = np.empty(size, np.uint8)
    source, target = memoryview(chunk.buffer.data), memoryview(out.data)
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
            raise _corrupt(chunk, first + index, str(error)) from error
        if got != plain:
            raise _corrupt(chunk, first + index, f"it states {plain} bytes and holds {got if got >= 0 else 'others'}")
    return _assemble(chunk.part(first, first + len(plan)), plan, offsets, out)


def _assemble(chunk: EventChunk, plan: Ints, offsets: Ints, out: Bytes) -> EventChunk:
    count = payload.count_events(out, plan, offsets)
    if count < 0:
        raise _corrupt(chunk, -1 - count, "the events inside have impossible lengths")
    start, end, position, commit = (np.empty(count, np.int64) for _ in range(4))
    kind, query = np.empty(count, np.uint8), np.empty(count, np.uint8)
    done = payload.assemble(
        chunk.buffer, chunk.start, chunk.end, chunk.type, chunk.end_position, chunk.commit_ms, chunk.query_kind,
        plan, offsets, out, start, end, kind, position, commit, query,
    )  # fmt: skip
    if done < 0:
        raise _corrupt(chunk, -1 - done, "it holds an event that cannot be inside of another")
    return EventChunk(
        chunk.file, chunk.file_number, out, start, end, kind, position, commit, query, chunk.checksum
    )  # fmt: skip


def _stream(chunk: EventChunk, plan: Ints, index: int) -> Iterator[EventChunk]:
    """A payload bigger than a piece, decompressed piece by piece."""
    _, begin, end, plain, _ = plan.tolist()
    reader = zstandard.ZstdDecompressor().stream_reader(
        memoryview(chunk.buffer.data)[begin:end], read_across_frames=True
    )
    state = np.zeros(framing.STATE_SIZE, np.int64)
    state[framing.POSITION], state[framing.COMMIT_MS] = chunk.end_position[index], chunk.commit_ms[index]
    buffer, filled, total = np.empty(PIECE, np.uint8), 0, 0
    while True:
        try:
            got = reader.readinto(memoryview(buffer.data)[filled:])
        except zstandard.ZstdError as error:
            raise _corrupt(chunk, index, str(error)) from error
        filled += got
        total += got
        if filled == len(buffer) or got == 0:
            state[framing.AT] = 0
            yield from _indexed(chunk, index, buffer, filled, state)
            rest = filled - int(state[framing.AT])
            if got == 0:
                break
            fresh = np.empty(max(PIECE, 2 * rest), np.uint8)
            fresh[:rest] = buffer[filled - rest : filled]
            buffer, filled = fresh, rest
    if total != plain or rest:
        raise _corrupt(chunk, index, f"it states {plain} bytes and holds {total}")


def _indexed(chunk: EventChunk, index: int, buffer: Bytes, filled: int, state: Ints) -> Iterator[EventChunk]:
    """Chunks of the whole events in `buffer[:filled]`, a piece of payload number `index`."""
    capacity = 1 << 17
    while True:
        start, end, position, commit = (np.empty(capacity, np.int64) for _ in range(4))
        kind, query = np.empty(capacity, np.uint8), np.empty(capacity, np.uint8)
        count, stopped = framing.index_events(
            buffer, filled, framing.PAYLOAD, 0, state, start, end, kind, position, commit, query, capacity
        )
        if stopped not in (framing.MORE, framing.FULL) or state[framing.EXPAND]:
            raise _corrupt(chunk, index, "it holds an event that cannot be inside of another")
        if count:
            cut = slice(0, count)
            yield EventChunk(
                chunk.file, chunk.file_number, buffer, start[cut].copy(), end[cut].copy(), kind[cut].copy(),
                position[cut].copy(), commit[cut].copy(), query[cut].copy(), chunk.checksum,
            )  # fmt: skip
        if stopped == framing.MORE:
            return


def _corrupt(chunk: EventChunk, index: int, reason: str) -> CorruptLog | UnsupportedChange:
    return CorruptLog(
        f"a {events.type_name(int(chunk.type[index]))} event cannot be expanded: {reason}", where=chunk.where(index)
    )
