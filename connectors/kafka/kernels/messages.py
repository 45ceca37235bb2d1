"""Copy librdkafka's messages into columns. A message is the address of an rd_kafka_message_t."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from connectors.kafka.kernels import kernel
from connectors.kafka.kernels.prefixes import CLOSE, begins_with
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import move, peek8, peek64, signed32

_POINTER = ir.IntType(8).as_pointer()
_ERR, _TOPIC, _PARTITION, _VALUE, _VALUE_LENGTH, _KEY, _KEY_LENGTH, _OFFSET = 0, 8, 16, 24, 32, 40, 48, 56


def _function(builder: Any, address: Any, result: ir.Type, arguments: int) -> Any:
    kind = ir.FunctionType(result, [_POINTER] * arguments)
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def _release(typing: Any, function: Any, message: Any) -> Any:
    """void function(message)"""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_function(builder, args[0], ir.VoidType(), 1), [builder.inttoptr(args[1], _POINTER)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _time(typing: Any, function: Any, message: Any) -> Any:
    """int64 function(message, NULL)"""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        called = _function(builder, args[0], ir.IntType(64), 2)
        return builder.call(called, [builder.inttoptr(args[1], _POINTER), ir.Constant(_POINTER, None)])

    return types.int64(types.int64, types.int64), generate


@kernel.entry
def fitting(messages: Ints, first: Int, limit: Int, sizes: Ints) -> Int:
    """How many messages from `first` on have at most `limit` bytes of keys and values together; at least one.

    Sets sizes[0] to the number of bytes.
    """
    total = 0
    for item in range(first, len(messages)):
        message = messages[item]
        size = 0
        if signed32(message + _ERR) == 0:
            size = peek64(message + _VALUE_LENGTH) + peek64(message + _KEY_LENGTH)
        if item > first and total + size > limit:
            sizes[0] = total
            return item - first
        total += size
    sizes[0] = total
    return len(messages) - first


@kernel
def _span(out: Int, to: Int, source: Int, length: Int, begins: Ints, ends: Ints, item: Int) -> Int:
    """Copy a key or a value; return the position for the next one. NULL begins and ends at -1."""
    if source == 0:
        begins[item] = ends[item] = -1
        return to
    move(out + to, source, length)
    begins[item], ends[item] = to, to + length
    return to + length


@kernel
def _headed(text: Int, length: Int, heads: Ints, sizes: Ints, latest: Int) -> Int:
    """The number of the head of a value that ends in `}`; -1 for none. Compares with head `latest` first."""
    if text == 0 or length == 0 or peek8(text + length - 1) != CLOSE:
        return -1
    for turn in range(len(heads)):
        head = (latest + turn) % len(heads)
        if length > sizes[head] and begins_with(text, heads[head], sizes[head]):
            return head
    return -1


@kernel.entry
def copy_messages(
    messages: Ints, out: Int, topics: Ints, partitions: Ints, offsets: Ints, times_ms: Ints, key_begins: Ints,
    key_ends: Ints, begins: Ints, ends: Ints, left: Ints, timestamp: Int, destroy: Int, heads: Ints, sizes: Ints,
    headed: Ints,
) -> Int:  # fmt: skip
    """Copy keys and values to `out`, fill the columns, and release the messages; return how many there are.

    `topics` become addresses of rd_kafka_topic_t. Messages that are errors are put into `left` and not released.
    heads, sizes: addresses and sizes of texts with which values may begin. Such a value is copied without its head, and
    `headed` has the number of the head, else -1.
    """
    to, count, latest = 0, 0, 0
    for item in range(len(messages)):
        message = messages[item]
        if signed32(message + _ERR) != 0:
            left[item - count] = message
            continue
        topics[count], partitions[count] = peek64(message + _TOPIC), signed32(message + _PARTITION)
        offsets[count] = peek64(message + _OFFSET)
        times_ms[count] = max(0, _time(timestamp, message))
        value, length = peek64(message + _VALUE), peek64(message + _VALUE_LENGTH)
        head = _headed(value, length, heads, sizes, latest)
        headed[count] = head
        if head >= 0:
            latest = head
            value, length = value + sizes[head], length - sizes[head]
        to = _span(out, to, value, length, begins, ends, count)
        to = _span(out, to, peek64(message + _KEY), peek64(message + _KEY_LENGTH), key_begins, key_ends, count)
        _release(destroy, message)
        count += 1
    return count
