"""CRC-32 (the zlib polynomial, as in MySQL's binlog checksums) of bytes at addresses, for use inside other kernels.

On x86-64 with carry-less multiplication, 64 bytes are folded per step (V. Gopal et al., "Fast CRC Computation for
Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009); elsewhere eight tables process eight bytes per step.
"""

from __future__ import annotations

import platform
from typing import Any, Final

import numpy as np
from llvmlite import binding
from numba import config

from connectors.mysql.kernels import crc_fold, kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek32

_POLYNOMIAL: Final = 0xEDB88320
_START: Final = 0xFFFFFFFF


def _tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        previous = tables[step - 1]
        tables[step] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


_TABLE: Final = _tables()


@kernel
def _continued(crc: Int, at: Int, size: Int) -> Int:
    """Return the register after `size` more bytes, computed with tables."""
    end = at + size
    while at + 8 <= end:
        crc ^= peek32(at)
        later = peek32(at + 4)
        crc = np.int64(
            _TABLE[7, crc & 0xFF]
            ^ _TABLE[6, crc >> 8 & 0xFF]
            ^ _TABLE[5, crc >> 16 & 0xFF]
            ^ _TABLE[4, crc >> 24]
            ^ _TABLE[3, later & 0xFF]
            ^ _TABLE[2, later >> 8 & 0xFF]
            ^ _TABLE[1, later >> 16 & 0xFF]
            ^ _TABLE[0, later >> 24]
        )
        at += 8
    while at < end:
        crc = crc >> 8 ^ np.int64(_TABLE[0, (crc ^ peek8(at)) & 0xFF])
        at += 1
    return crc


@kernel.entry
def crc32_table(at: Int, size: Int, floor: Int) -> Int:
    """Return the CRC-32 of `size` bytes at address `at`.

    floor: the lowest address that may be read; only `crc32_folded` needs it.
    """
    return _continued(_START, at, size) ^ _START


@kernel.entry
def crc32_folded(at: Int, size: Int, floor: Int) -> Int:
    """Return the same CRC-32 as `crc32_table`, with carry-less multiplication.

    Bytes from `floor` on may be read, but do not count.
    """
    crc = np.int64(_START)
    if at - floor < crc_fold.REACH:
        step = min(size, np.int64(crc_fold.REACH))
        crc = _continued(crc, at, step)
        at += step
        size -= step
    if size < crc_fold.SHORTEST:
        return _continued(crc, at, size) ^ _START
    return crc_fold.fold(at, size, crc)


def _has_carryless_multiply() -> bool:
    """Return whether Numba will generate code for this CPU, and it has PCLMULQDQ and SSSE3."""
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES:
        return False
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    features = binding.get_host_cpu_features()
    return bool(features.get("pclmul")) and bool(features.get("ssse3"))


FOLDED: Final = _has_carryless_multiply()
crc32 = crc32_folded if FOLDED else crc32_table
