"""Kernels over arbitrary bytes: they stay inside their buffers and always end."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from binlog_builder import FIXTURES, packets
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql.kernels import framing, gtid_log, payload, query_kind
from connectors.mysql.kernels.bits import varlen
from connectors.mysql.log.expand import expand
from connectors.mysql.log.receive_buffer import ReceiveBuffer

GUARD = 64
KNOWN = [2, 3, 4, 15, 16, 19, 23, 26, 27, 30, 33, 34, 35, 39, 40, 41, 42, 160, 162, 163, 164, 165, 166, 169, 170, 200]


def index_all(data: bytes, kind: int, checksum: bool) -> tuple[int, int]:
    """Run the framing kernel over `data` between two guard zones until it stops; (events found, reason)."""
    buffer = np.full(GUARD + len(data) + GUARD, 0xA5, np.uint8)
    buffer[GUARD : GUARD + len(data)] = np.frombuffer(data, np.uint8)
    state = np.zeros(framing.STATE_SIZE, np.int64)
    state[framing.AT], state[framing.COMMIT_MS] = GUARD, gtid_log.NO_TIME
    limit, found = GUARD + len(data), 0
    capacity = 16
    start, end, position, commit = (np.full(capacity + 1, -7, np.int64) for _ in range(4))
    types, queries = np.full(capacity + 1, 250, np.uint8), np.full(capacity + 1, 250, np.uint8)
    while True:
        count, stopped = framing.index_events(
            buffer, limit, kind, 4 * checksum, state, start, end, types, position, commit, queries, capacity
        )
        assert 0 <= count <= capacity
        assert (start[:count] >= GUARD).all()
        assert (end[:count] <= limit).all()
        assert (start[:count] < end[:count]).all()
        assert GUARD <= state[framing.AT] <= limit
        assert (buffer[:GUARD] == 0xA5).all()
        assert (buffer[limit:] == 0xA5).all()
        assert start[capacity] == end[capacity] == position[capacity] == commit[capacity] == -7
        assert types[capacity] == queries[capacity] == 250
        found += count
        if stopped not in (framing.FULL, framing.CONTROL):
            return found, stopped


@st.composite
def plausible(draw: st.DrawFn) -> bytes:
    """Bytes that look enough like events to get past the first check, some with a right checksum."""
    out = b""
    for _ in range(draw(st.integers(1, 6))):
        body = draw(st.binary(max_size=60))
        size = 19 + len(body) + draw(st.sampled_from([0, 0, 0, 4, -1, 1, 1000, 2**31]))
        header = struct.pack("<IBII", 1, draw(st.sampled_from(KNOWN)), 1, max(0, size) & 0xFFFFFFFF)
        plain = header + draw(st.sampled_from([b"\0\0\0\0", b"\1\2\3\4"])) + b"\0\0" + body
        out += plain + draw(st.sampled_from([b"", struct.pack("<I", zlib.crc32(plain))]))
    return out


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(data=st.one_of(st.binary(max_size=300), plausible()), kind=st.integers(0, 2), checksum=st.booleans())
def test_framing_stays_inside_and_ends(data: bytes, kind: int, checksum: bool) -> None:
    index_all(data, kind, checksum)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(data=plausible(), sequence=st.integers(0, 3))
def test_packets_of_arbitrary_content_stay_inside(data: bytes, sequence: int) -> None:
    index_all(packets(data, sequence) + packets(data[3:], sequence + 1), framing.STREAM, True)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([40, 165, 166, 167, 169, 170, 2, 30]), st.binary(min_size=1, max_size=80))))
def test_expansion_of_arbitrary_bodies_is_refused_or_ends(parts: list[tuple[int, bytes]]) -> None:
    buffer, start, end = b"", [], []
    for kind, body in parts:
        start.append(len(buffer))
        buffer += struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body), 0, 0) + body
        end.append(len(buffer))
    count = len(parts)
    chunk = ReceiveBuffer(
        "binlog.000001", 1, np.frombuffer(bytearray(buffer + b"\xa5"), np.uint8)[:-1], np.array(start, np.int64),
        np.array(end, np.int64), np.array([kind for kind, _ in parts], np.uint8), np.arange(1, count + 1),
        np.zeros(count, np.int64), np.zeros(count, np.uint8), False,
    )  # fmt: skip
    try:
        found = list(expand(chunk))
    except (CorruptLog, UnsupportedChange):
        return
    for piece in found:
        assert (piece.end <= len(piece.data)).all()
        assert (piece.start + 19 <= piece.end).all()


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.binary(max_size=120))
def test_small_readers_stay_inside(data: bytes) -> None:
    buffer = np.frombuffer(bytearray(data), np.uint8)
    end = len(data)
    assert -1 <= query_kind.query_kind(buffer, 0, end) <= 5
    assert 1 <= query_kind.statement_kind(buffer, 0, end) <= 5
    assert gtid_log.untagged_commit_us(buffer, 0, end) >= gtid_log.BAD
    fields = np.zeros(4, np.int64)
    if gtid_log.tagged_fields(buffer, 0, end, np.zeros(16, np.uint8), fields):
        assert 0 <= fields[1] <= fields[1] + fields[2] <= end
    assert varlen(buffer, 0, end)[1] <= end
    plan = np.zeros((1, payload.PLAN_WIDTH), np.int64)
    if end >= 19:
        for kind in (40, 165, 166, 169, 170):
            one = np.array([0], np.int64), np.array([end], np.int64), np.array([kind], np.uint8)
            if payload.plan_expansion(buffer, *one, plan) < 0:
                assert 0 <= plan[0, payload.FROM] <= plan[0, payload.TO] <= end


def mutated_logs(count: int, seed: int) -> None:
    """Recorded logs with random damage, resealed or not, through all kernels."""
    random = np.random.default_rng(seed)
    for name in ("mysql.binlog", "mysql-no-checksum.binlog", "mariadb.binlog"):
        original = np.frombuffer((FIXTURES / name).read_bytes(), np.uint8)
        for _ in range(count):
            data = original.copy()
            places = random.integers(4, len(data), random.integers(1, 12))
            data[places] = random.integers(0, 256, len(places))
            index_all(data[4:].tobytes(), framing.FILE, False)
            index_all(data[127:].tobytes(), framing.PAYLOAD, False)


def test_mutated_logs_stay_inside() -> None:
    mutated_logs(100, 1)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_mutated_logs_with_numba_bounds_checks(tmp_path: Path) -> None:
    """Compiled once more with a check at every index: an access outside would raise IndexError. By themselves, guard
    pages find accesses outside what was given, in `test_decoder_fuzz.py`."""
    here = Path(__file__)
    code = "import test_log_fuzz as fuzz; fuzz.mutated_logs(300, 2); fuzz.small_inputs(2000)"
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in (here.parent, here.parents[1], here.parents[4])),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


def small_inputs(count: int) -> None:
    random = np.random.default_rng(3)
    for _ in range(count):
        data = random.integers(0, 256, random.integers(0, 80), dtype=np.uint8).tobytes()
        test_small_readers_stay_inside.hypothesis.inner_test(data)  # type: ignore[attr-defined]
        index_all(data, int(random.integers(0, 3)), False)
