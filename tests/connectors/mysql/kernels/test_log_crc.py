"""The checksum kernels give what zlib gives."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest

from connectors.mysql.kernels import crc
from connectors.mysql.rows.addresses import address

KERNELS = [crc.crc32_table] + ([crc.crc32_folded] if crc.FOLDED else [])
FLOORS = (0, 64, 4096)
"""Bytes before the range that the kernel may read."""


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_equal_to_zlib_at_every_length_and_alignment(kernel: object) -> None:
    data = np.random.default_rng(1).integers(0, 256, 8192, dtype=np.uint8)
    text = data.tobytes()
    for size in range(301):
        for start in (4096, 4097, 4103, 4112):
            for floor in FLOORS:
                at = address(data) + start
                assert kernel(at, size, at - floor) == zlib.crc32(text[start : start + size])  # type: ignore[operator]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_equal_to_zlib_on_big_ranges(kernel: object) -> None:
    data = np.random.default_rng(2).integers(0, 256, 3_000_001, dtype=np.uint8)
    for size in (8191, 65_537, 1 << 20, 3_000_001):
        at = address(data)
        assert kernel(at, size, at) == zlib.crc32(data[:size].tobytes())  # type: ignore[operator]
        assert kernel(at + 99, size - 99, at) == zlib.crc32(data[99:size].tobytes())  # type: ignore[operator]


_AT_THE_EDGE_OF_MEMORY = """
import ctypes, mmap, zlib
import numpy as np
from connectors.mysql.kernels.crc import crc32
page = mmap.PAGESIZE
area = mmap.mmap(-1, 3 * page)
area.write(bytes(range(256)) * (3 * page // 256))
data = np.frombuffer(area, np.uint8)
libc = ctypes.CDLL(None, use_errno=True)
for edge in (0, 2 * page):
    assert libc.mprotect(ctypes.c_void_p(data.ctypes.data + edge), page, 0) == 0
first = data.ctypes.data + page
for size in range(400):
    assert crc32(first + page - size, size, first) == zlib.crc32(data[2 * page - size : 2 * page].tobytes()), size
    assert crc32(first, size, first) == zlib.crc32(data[page : page + size].tobytes()), size
    assert crc32(first + 30, size, first) == zlib.crc32(data[page + 30 : page + 30 + size].tobytes()), size
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect of Linux")
@pytest.mark.slow
def test_reads_no_byte_before_the_floor_or_behind_the_range() -> None:
    """With unreadable pages on both sides any access outside kills the process."""
    done = subprocess.run([sys.executable, "-c", _AT_THE_EDGE_OF_MEMORY], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
