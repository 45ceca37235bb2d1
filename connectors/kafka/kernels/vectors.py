"""Test many bytes at once; the result is a number with one bit per byte, the lowest for the first byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_Test = Callable[[Any, Any, Callable[[int], Any]], Any]
"""Takes a builder, a vector of bytes, and a function that repeats one byte; returns a vector of truth values."""


def _finder(width: int, test: _Test) -> Any:
    vector = ir.VectorType(_I8, width)

    def of_one(byte: int) -> Any:
        return ir.Constant(vector, [byte] * width)

    @intrinsic
    def find(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = builder.load(builder.inttoptr(args[0], vector.as_pointer()), align=1)
            bits = builder.bitcast(test(builder, found, of_one), ir.IntType(width))
            return bits if width == 64 else builder.zext(bits, _I64)

        return types.uint64(types.int64), generate

    return find


def _one_of(*wanted: int, mask: int = 0) -> _Test:
    """A test for bytes that, with the bits of `mask` set, are one of those wanted."""

    def test(builder: Any, found: Any, of_one: Callable[[int], Any]) -> Any:
        given = builder.or_(found, of_one(mask)) if mask else found
        first, *others = (builder.icmp_unsigned("==", given, of_one(byte)) for byte in wanted)
        for other in others:
            first = builder.or_(first, other)
        return first

    return test


def _no_digit(builder: Any, found: Any, of_one: Callable[[int], Any]) -> Any:
    return builder.icmp_unsigned(">", builder.sub(found, of_one(48)), of_one(9))


_QUOTE, _BACK, _OPEN, _CLOSE, _CASE = 34, 92, 123, 125, 32

string_stops16 = _finder(16, _one_of(_QUOTE, _BACK))
"""string_stops16(address): the quotes and backslashes."""
other_than_digits16 = _finder(16, _no_digit)
quotes64 = _finder(64, _one_of(_QUOTE))
backs64 = _finder(64, _one_of(_BACK))
opens64 = _finder(64, _one_of(_OPEN, mask=_CASE))
"""opens64(address): the `{` and `[`, which only differ in one bit."""
closes64 = _finder(64, _one_of(_CLOSE, mask=_CASE))
"""closes64(address): the `}` and `]`."""


@intrinsic
def lowest(typing: Any, bits: Any) -> Any:
    """lowest(bits): the number of the lowest bit that is set; 64 when none is set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def number_of(typing: Any, bits: Any) -> Any:
    """number_of(bits): how many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate
