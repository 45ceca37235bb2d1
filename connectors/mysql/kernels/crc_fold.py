"""CRC-32 by carry-less multiplication, written in LLVM IR, because Numba has no name for PCLMULQDQ.

The message is a polynomial over GF(2), with its bits reflected. A 128-bit state is moved `d` bits ahead by multiplying
its two halves with x**(d+32) and x**(d-32) modulo the polynomial; four states run side by side, 64 bytes per step. The
first step takes the bytes beyond a multiple of 64, masked. So the size causes no branches, which a processor predicts
badly where events differ in size. Barrett reduction gives the 32-bit remainder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SHORTEST: Final = 4
"""The minimum number of bytes for `fold`."""
REACH: Final = 64
"""Bytes before the message that `fold` may read."""

_POLYNOMIAL: Final = 0x104C11DB7

_I8, _I32, _I64, _I128 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.IntType(128)
_BYTES, _PAIR = ir.VectorType(_I8, 16), ir.VectorType(_I64, 2)


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _power(exponent: int) -> int:
    """Return x**exponent modulo the polynomial, in the reflected 33-bit form that PCLMULQDQ needs."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value >> 32:
            value ^= _POLYNOMIAL
    return _reflect(value, 32) << 1


def _quotient() -> int:
    """Return x**64 divided by the polynomial, reflected: Barrett's constant."""
    dividend, quotient = 1 << 64, 0
    for shift in range(32, -1, -1):
        if dividend >> (shift + 32) & 1:
            quotient |= 1 << shift
            dividend ^= _POLYNOMIAL << shift
    return _reflect(quotient, 33)


def _pair(low: int, high: int) -> ir.Constant:
    return ir.Constant(_PAIR, [low, high])


_BY_BYTES: Final = {size: (_power(8 * size + 32), _power(8 * size - 32)) for size in (16, 32, 48, 64)}
_BY_8_BYTES: Final = _power(64)
_KEPT: Final = bytearray([0x00] * 64 + [0xFF] * 64)
"""The 64 bytes from 64 - n on mask the first n bytes of a block."""
_FIRST: Final = bytearray([0x80] * 64 + [0, 1, 2, 3] + [0x80] * 76)
"""The 80 bytes from 64 - n on are byte shuffles that put four bytes at place n of a block and the next 16 bytes."""


class _Builder:
    """The few 128-bit operations needed for folding."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.ir, module = builder, builder.module
        self._multiply = cgutils.get_or_insert_function(
            module, ir.FunctionType(_PAIR, [_PAIR, _PAIR, _I8]), "llvm.x86.pclmulqdq"
        )
        self._shuffle = cgutils.get_or_insert_function(
            module, ir.FunctionType(_BYTES, [_BYTES, _BYTES]), "llvm.x86.ssse3.pshuf.b.128"
        )

    def table(self, name: str, content: bytearray) -> Any:
        """Return the address of a constant."""
        constant = cgutils.global_constant(self.ir.module, name, cgutils.make_bytearray(content))
        return self.ir.ptrtoint(constant, _I64)

    def load(self, address: Any, offset: int = 0) -> Any:
        """Load 16 unaligned bytes."""
        at = self.ir.add(address, ir.Constant(_I64, offset))
        return self.ir.load(self.ir.inttoptr(at, _PAIR.as_pointer()), align=1)

    def multiply(self, state: Any, constant: Any, halves: int) -> Any:
        return self.ir.call(self._multiply, [state, constant, ir.Constant(_I8, halves)])

    def ahead(self, state: Any, size: int) -> Any:
        """Move `state` ahead by `size` bytes."""
        pair = _pair(*_BY_BYTES[size])
        return self.ir.xor(self.multiply(state, pair, 0x00), self.multiply(state, pair, 0x11))

    def shuffle(self, value: Any, mask: Any) -> Any:
        shuffled = self.ir.call(self._shuffle, [value, self.ir.bitcast(mask, _BYTES)])
        return self.ir.bitcast(shuffled, _PAIR)

    def reduce(self, state: Any) -> Any:
        """Return the CRC of a 128-bit state, as i32."""
        b = self.ir
        wide = b.bitcast(state, _I128)
        folded = b.xor(
            b.bitcast(self.multiply(state, _pair(*_BY_BYTES[16]), 0x10), _I128), b.lshr(wide, ir.Constant(_I128, 64))
        )
        low = b.and_(folded, ir.Constant(_I128, 0xFFFFFFFF))
        folded = b.xor(
            b.bitcast(self.multiply(b.bitcast(low, _PAIR), _pair(_BY_8_BYTES, 0), 0x00), _I128),
            b.lshr(folded, ir.Constant(_I128, 32)),
        )
        low = b.bitcast(b.and_(folded, ir.Constant(_I128, 0xFFFFFFFF)), _PAIR)
        barrett = _pair(_reflect(_POLYNOMIAL, 33), _quotient())
        low = b.bitcast(self.multiply(low, barrett, 0x10), _I128)
        low = b.bitcast(b.and_(low, ir.Constant(_I128, 0xFFFFFFFF)), _PAIR)
        folded = b.xor(b.bitcast(self.multiply(low, barrett, 0x00), _I128), folded)
        return b.not_(b.trunc(b.lshr(folded, ir.Constant(_I128, 32)), _I32))


@intrinsic
def fold(typing: Any, at: Any, size: Any, register: Any) -> Any:
    """`fold(at, size, register)`: the CRC-32 after `size` more bytes at address `at`.

    size >= SHORTEST; the REACH bytes before `at` can be read. register: the CRC register of the bytes before;
    0xFFFFFFFF at the start.
    """
    return types.int64(types.int64, types.int64, types.int64), _generate


def _generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    b, (at, size, register) = _Builder(builder), args
    end = builder.add(at, size)
    unused = builder.and_(builder.neg(size), ir.Constant(_I64, 63))  # bytes of the first block before the message
    lanes, carry = _first_block(b, builder.sub(at, unused), unused, register)
    cursor = cgutils.alloca_once_value(builder, builder.add(at, builder.sub(ir.Constant(_I64, 64), unused)))
    with _blocks_before(builder, cursor, end):
        here = builder.load(cursor)
        for lane in range(4):
            data = b.load(here, 16 * lane)
            builder.store(builder.xor(b.ahead(builder.load(lanes[lane]), 64), data), lanes[lane])
        builder.store(builder.xor(builder.load(lanes[0]), builder.load(carry)), lanes[0])
        builder.store(_pair(0, 0), carry)
        builder.store(builder.add(here, ir.Constant(_I64, 64)), cursor)
    joined = builder.load(lanes[3])
    for lane in range(3):
        joined = builder.xor(joined, b.ahead(builder.load(lanes[lane]), 48 - 16 * lane))
    return builder.zext(b.reduce(joined), _I64)


def _first_block(b: _Builder, block: Any, unused: Any, register: Any) -> tuple[list[Any], Any]:
    """Build the lanes after the first block, and the bytes of the register that are to be added to the second block.

    Zeros before a message do not change its CRC; the register is added to the message's first four bytes.
    """
    builder = b.ir
    number = builder.insert_element(_pair(0, 0), register, ir.Constant(_I32, 0))
    four = builder.bitcast(number, _BYTES)
    skip = builder.sub(ir.Constant(_I64, 64), unused)
    kept, first = builder.add(b.table("crc_kept", _KEPT), skip), builder.add(b.table("crc_first", _FIRST), skip)
    lanes = []
    for lane in range(4):
        data = builder.and_(b.load(block, 16 * lane), b.load(kept, 16 * lane))
        data = builder.xor(data, b.shuffle(four, b.load(first, 16 * lane)))
        lanes.append(cgutils.alloca_once_value(builder, data))
    return lanes, cgutils.alloca_once_value(builder, b.shuffle(four, b.load(first, 64)))


@contextmanager
def _blocks_before(builder: ir.IRBuilder, cursor: Any, end: Any) -> Iterator[None]:
    """Build a loop that runs while `cursor` is before `end`."""
    check, body, done = (builder.append_basic_block(f"fold.{name}") for name in ("check", "body", "done"))
    builder.branch(check)
    builder.position_at_end(check)
    builder.cbranch(builder.icmp_unsigned("<", builder.load(cursor), end), body, done)
    builder.position_at_end(body)
    yield
    builder.branch(check)
    builder.position_at_end(done)
