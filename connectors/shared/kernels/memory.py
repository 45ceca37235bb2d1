"""Loads, stores and copies at addresses; each is one machine instruction.

The caller has checked that the bytes exist; `tests/.../mysql/rows/test_decoder_fuzz.py` runs the kernels between guard
pages. Numbers are little-endian unless the name ends in b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from connectors.shared.kernels import kernel
from connectors.shared.kernels.kernel_types import Int

_I64 = ir.IntType(64)
_BYTES = types.Array(types.uint8, 1, "C")


def _loader(bits: int, *, signed: bool = False, big_endian: bool = False) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            if big_endian:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, _I64) if signed else builder.zext(value, _I64)

        return types.int64(types.int64), generate

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            builder.store(number, builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return store


peek8, peek16, peek32, peek64 = _loader(8), _loader(16), _loader(32), _loader(64)
"""peek(address): the number there as int64, unsigned unless it has eight bytes."""
peek16b, peek32b = _loader(16, big_endian=True), _loader(32, big_endian=True)
signed8, signed16, signed32 = _loader(8, signed=True), _loader(16, signed=True), _loader(32, signed=True)
"""signed(address): the signed number there."""
poke8, poke16, poke32, poke64 = _storer(8), _storer(16), _storer(32), _storer(64)
"""poke(address, value): store the lowest bytes of an int64."""


@intrinsic
def move(typing: Any, to: Any, source: Any, size: Any) -> Any:
    """move(to, source, size): copy bytes between places that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.inttoptr(args[0], pointer), builder.inttoptr(args[1], pointer), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _mover(bits: int) -> Any:
    @intrinsic
    def copy(typing: Any, to: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.VectorType(_I64, bits // 64).as_pointer()
            builder.store(
                builder.load(builder.inttoptr(args[1], pointer), align=1), builder.inttoptr(args[0], pointer), align=1
            )
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return copy


move32, move64 = _mover(256), _mover(512)
"""move(to, source): copy 32 or 64 bytes.

Cheaper than copying fewer bytes when their number is known only at run time.
"""


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """prefetch(address): start loading a cache line that will be read soon. Harmless for any address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), (pointer, word, word, word))
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, (builder.inttoptr(args[0], pointer), word(0), word(3), word(1)))
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def fill(typing: Any, address: Any, size: Any, value: Any) -> Any:
    """fill(address, size, value): set `size` bytes to `value`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        cgutils.memset(builder, pointer, args[1], builder.trunc(args[2], ir.IntType(8)))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def address(typing: Any, array: Any) -> Any:
    """address(array): the address of the first element of a C-contiguous array, which the caller keeps alive."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, _I64)

    return types.int64(array), generate


@intrinsic
def view(typing: Any, address: Any, size: Any) -> Any:
    """view(address, size): these bytes as an array, for kernels that take arrays. The array owns nothing."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(_BYTES)(context, builder)
        populate_array(
            array,
            data=builder.inttoptr(args[0], ir.IntType(8).as_pointer()),
            shape=(args[1],),
            strides=(_I64(1),),
            itemsize=_I64(1),
            meminfo=None,
        )
        return array._getvalue()

    return _BYTES(types.int64, types.int64), generate


@kernel
def peek24(at: Int) -> Int:
    """Return the number in three bytes."""
    return peek16(at) | peek8(at + 2) << 16


@kernel
def peek(at: Int, size: Int) -> Int:
    """Return the number in `size` (1..8) bytes; eight are read as a signed number."""
    if size == 1:
        return peek8(at)
    if size == 2:
        return peek16(at)
    if size == 4:
        return peek32(at)
    if size == 8:
        return peek64(at)
    value = peek16(at)
    for i in range(2, size):
        value |= peek8(at + i) << (8 * i)
    return value


@kernel
def peekb(at: Int, size: Int) -> Int:
    """Return the big-endian number in `size` (0..4) bytes."""
    if size == 4:
        return peek32b(at)
    if size == 1:
        return peek8(at)
    if size == 2:
        return peek16b(at)
    if size == 3:
        return peek16b(at) << 8 | peek8(at + 2)
    return 0


@kernel
def same_bytes(a: Int, b: Int, size: Int) -> bool:
    """Return whether two byte strings are equal."""
    i = np.int64(0)
    while size - i >= 8:
        if peek64(a + i) != peek64(b + i):
            return False
        i += 8
    while i < size:
        if peek8(a + i) != peek8(b + i):
            return False
        i += 1
    return True
