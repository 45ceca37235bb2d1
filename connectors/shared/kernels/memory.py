"""Loads, stores and copies at addresses, each one machine instruction. The caller has checked the bounds."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I64 = ir.IntType(64)


def _loader(bits: int, *, signed: bool = False) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
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
"""peek(address): the number there as int64; not signed, except for eight bytes."""
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
