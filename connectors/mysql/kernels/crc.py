"""CRC-32 (the zlib polynomial, as MySQL's binlog checksums) of byte ranges, for use inside other kernels.

On x86-64 with carry-less multiplication the range is folded 64 bytes a step (V. Gopal et al., "Fast CRC Computation for
Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009); elsewhere eight tables take eight bytes a step.
"""

from __future__ import annotations

import platform
from typing import Any, Final

import numpy as np
from llvmlite import binding
from numba import config, njit

from connectors.mysql.kernels import crc_fold
from connectors.mysql.kernels.kernel_types import Bytes, Int

_POLYNOMIAL: Final = 0xEDB88320


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


@njit(cache=True, nogil=True)
def crc32_table(data: Bytes, start: Int, end: Int) -> Int:
    """CRC-32 of `data[start:end]`; the caller has checked 0 <= start <= end <= len(data)."""
    crc = np.int64(0xFFFFFFFF)
    at = start
    while at + 8 <= end:
        crc ^= np.int64(data[at]) | np.int64(data[at + 1]) << 8
        crc ^= np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
        crc = np.int64(
            _TABLE[7, crc & 0xFF]
            ^ _TABLE[6, crc >> 8 & 0xFF]
            ^ _TABLE[5, crc >> 16 & 0xFF]
            ^ _TABLE[4, crc >> 24]
            ^ _TABLE[3, data[at + 4]]
            ^ _TABLE[2, data[at + 5]]
            ^ _TABLE[1, data[at + 6]]
            ^ _TABLE[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = crc >> 8 ^ np.int64(_TABLE[0, (crc ^ np.int64(data[at])) & 0xFF])
        at += 1
    return crc ^ 0xFFFFFFFF


@njit(cache=True, nogil=True)
def crc32_folded(data: Bytes, start: Int, end: Int) -> Int:
    """As `crc32_table`, with carry-less multiplication from 16 bytes on."""
    if end - start < crc_fold.SHORTEST:
        return crc32_table(data, start, end)
    return crc_fold.fold(data, start, end - start)


def _has_carryless_multiply() -> bool:
    """Whether Numba will generate code for a CPU with PCLMULQDQ and SSSE3 (not when another CPU was asked for)."""
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES:
        return False
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    features = binding.get_host_cpu_features()
    return bool(features.get("pclmul")) and bool(features.get("ssse3"))


FOLDED: Final = _has_carryless_multiply()
crc32 = crc32_folded if FOLDED else crc32_table
