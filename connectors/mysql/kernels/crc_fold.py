"""CRC-32 by carry-less multiplication, written in LLVM IR, as Numba has no name for PCLMULQDQ.

The message is a polynomial over GF(2), bits reflected. A 128-bit state is moved `d` bits ahead by multiplying its two
halves with x**(d+32) and x**(d-32) modulo the polynomial; four states run side by side. The rest of 1 to 15 bytes is
joined by shifting the state over it, and Barrett reduction gives the 32-bit remainder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SHORTEST: Final = 16
"""Fewest bytes that `fold` takes."""

_POLYNOMIAL: Final = 0x104C11DB7

_I8, _I32, _I64, _I128 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.IntType(128)
_BYTES, _PAIR = ir.VectorType(_I8, 16), ir.VectorType(_I64, 2)


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _power(exponent: int) -> int:
    """x**exponent modulo the polynomial, reflected, in the 33-bit form that PCLMULQDQ of reflected data needs."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value >> 32:
            value ^= _POLYNOMIAL
    return _reflect(value, 32) << 1


def _quotient() -> int:
    """x**64 divided by the polynomial, reflected: Barrett's constant."""
    dividend, quotient = 1 << 64, 0
    for shift in range(32, -1, -1):
        if dividend >> (shift + 32) & 1:
            quotient |= 1 << shift
            dividend ^= _POLYNOMIAL << shift
    return _reflect(quotient, 33)


def _pair(low: int, high: int) -> ir.Constant:
    return ir.Constant(_PAIR, [low, high])


_BY_64_BYTES: Final = (_power(4 * 128 + 32), _power(4 * 128 - 32))
_BY_16_BYTES: Final = (_power(128 + 32), _power(128 - 32))
_BY_8_BYTES: Final = _power(64)
_SHIFTS: Final = bytearray([0x80] * 16 + list(range(16)) + [0x80] * 16)
"""A 16-byte window of this at 16 + n is a byte shuffle that shifts right by n, at 16 - n one that shifts left by n."""


class _Builder:
    """The few 128-bit operations that the folding is made of."""

    def __init__(self, builder: ir.IRBuilder, data: Any) -> None:
        self.ir, self.data, module = builder, data, builder.module
        self._multiply = cgutils.get_or_insert_function(
            module, ir.FunctionType(_PAIR, [_PAIR, _PAIR, _I8]), "llvm.x86.pclmulqdq"
        )
        self._shuffle = cgutils.get_or_insert_function(
            module, ir.FunctionType(_BYTES, [_BYTES, _BYTES]), "llvm.x86.ssse3.pshuf.b.128"
        )
        self._windows = cgutils.global_constant(module, "crc_fold_shifts", cgutils.make_bytearray(_SHIFTS))

    def load(self, offset: Any) -> Any:
        """16 unaligned bytes at `offset` of the data."""
        pointer = self.ir.bitcast(self.ir.gep(self.data, [offset]), _PAIR.as_pointer())
        return self.ir.load(pointer, align=1)

    def multiply(self, state: Any, constant: Any, halves: int) -> Any:
        return self.ir.call(self._multiply, [state, constant, ir.Constant(_I8, halves)])

    def ahead(self, state: Any, constants: tuple[int, int]) -> Any:
        """`state` moved ahead by the distance of `constants`."""
        pair = _pair(*constants)
        return self.ir.xor(self.multiply(state, pair, 0x00), self.multiply(state, pair, 0x11))

    def window(self, at: Any) -> Any:
        """Shuffle mask that begins at byte `at` of the windows table."""
        pointer = self.ir.gep(self._windows, [ir.Constant(_I64, 0), at], inbounds=True)
        return self.ir.load(self.ir.bitcast(pointer, _BYTES.as_pointer()), align=1)

    def shuffle(self, value: Any, mask: Any) -> Any:
        shuffled = self.ir.call(self._shuffle, [self.ir.bitcast(value, _BYTES), mask])
        return self.ir.bitcast(shuffled, _PAIR)

    def reduce(self, state: Any) -> Any:
        """The CRC of a 128-bit state, as i32."""
        b = self.ir
        wide = b.bitcast(state, _I128)
        folded = b.xor(
            b.bitcast(self.multiply(state, _pair(*_BY_16_BYTES), 0x10), _I128), b.lshr(wide, ir.Constant(_I128, 64))
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
def fold(typing: Any, data: Any, start: Any, size: Any) -> Any:
    """`fold(data, start, size)`: CRC-32 of `data[start:start + size]`; size >= SHORTEST and bounds checked before."""
    if not (isinstance(data, types.Array) and data.dtype == types.uint8 and data.layout == "C"):
        return None
    return types.int64(data, types.int64, types.int64), _generate


def _generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    b = _Builder(builder, builder.gep(array.data, [args[1]]))
    size = args[2]

    def number(value: int) -> ir.Constant:
        return ir.Constant(_I64, value)

    state = cgutils.alloca_once_value(builder, builder.xor(b.load(number(0)), _pair(0xFFFFFFFF, 0)))
    at = cgutils.alloca_once_value(builder, number(16))
    with builder.if_then(builder.icmp_signed(">=", size, number(64))):
        _fold_four(b, state, at, size)
    with _while_fits(builder, at, size, 16):
        here = builder.load(at)
        builder.store(builder.xor(b.ahead(builder.load(state), _BY_16_BYTES), b.load(here)), state)
        builder.store(builder.add(here, number(16)), at)

    rest = builder.sub(size, builder.load(at))
    with builder.if_then(builder.icmp_signed(">", rest, number(0))):
        builder.store(_join_rest(b, builder.load(state), rest, size), state)
    return builder.zext(b.reduce(builder.load(state)), _I64)


@contextmanager
def _while_fits(builder: ir.IRBuilder, at: Any, size: Any, step: int) -> Iterator[None]:
    """A loop that runs while `step` more bytes lie between `at` and `size`."""
    check, body, done = (builder.append_basic_block(f"fold.{name}") for name in ("check", "body", "done"))
    builder.branch(check)
    builder.position_at_end(check)
    enough = builder.icmp_signed("<=", builder.add(builder.load(at), ir.Constant(_I64, step)), size)
    builder.cbranch(enough, body, done)
    builder.position_at_end(body)
    yield
    builder.branch(check)
    builder.position_at_end(done)


def _fold_four(b: _Builder, state: Any, at: Any, size: Any) -> None:
    """Take whole 64-byte steps, the first one included, and leave `at` behind them. size >= 64."""
    builder = b.ir

    def number(value: int) -> ir.Constant:
        return ir.Constant(_I64, value)

    lanes = [state, *(cgutils.alloca_once(builder, _PAIR) for _ in range(3))]
    for lane in (1, 2, 3):
        builder.store(b.load(number(16 * lane)), lanes[lane])
    builder.store(number(64), at)
    with _while_fits(builder, at, size, 64):
        here = builder.load(at)
        for index, lane in enumerate(lanes):
            data = b.load(builder.add(here, number(16 * index)))
            builder.store(builder.xor(b.ahead(builder.load(lane), _BY_64_BYTES), data), lane)
        builder.store(builder.add(here, number(64)), at)
    joined = builder.load(state)
    for lane in lanes[1:]:
        joined = builder.xor(b.ahead(joined, _BY_16_BYTES), builder.load(lane))
    builder.store(joined, state)


def _join_rest(b: _Builder, state: Any, rest: Any, size: Any) -> Any:
    """`state` followed by the last `rest` (1..15) bytes of the data."""
    builder = b.ir
    sixteen = ir.Constant(_I64, 16)
    last = b.load(builder.sub(size, sixteen))
    head = b.shuffle(state, b.window(rest))
    tail = b.shuffle(state, b.window(builder.add(sixteen, rest)))
    keep = b.shuffle(_pair(2**64 - 1, 2**64 - 1), b.window(builder.add(sixteen, rest)))
    joined = builder.or_(tail, builder.and_(last, builder.not_(keep)))
    return builder.xor(b.ahead(head, _BY_16_BYTES), joined)
