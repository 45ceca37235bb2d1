"""Describe the texts of messages as parts (literals, rows, values) for the kernel that writes them from a block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.kernels.strings import ESCAPE_BYTES, escapes
from connectors.shared.kernels.buffers import buffers, string_offsets

BEFORE, AFTER, KEY = messages.BEFORE, messages.AFTER, messages.KEY
_MARGIN = 256
_AROUND = 16
"""The most bytes of a row besides its members: braces, brackets, the name `old`."""

_ESCAPED = (values.TEXT,)
_FACTORS = {
    values.TEXT: 1, values.RAW: 1, values.CSV: 2, values.BASE64: 2, values.BACKWARDS: 2, values.HEX: 2,
    values.GEOMETRY: 2, values.POINT: 2, values.LATIN1: 6, values.FLOATS: 25,
}  # fmt: skip
"""The most bytes of text for each byte, or item, of a value of variable length."""


@dataclass(frozen=True, slots=True)
class FieldEncoding:
    """The encoding of a column's values: the kernels' `op`, its `detail`, and the most bytes (`size`) of a value.

    `size` does not include the text of values of variable length. `label` is the member's name in objects if it is not
    the column's; otherwise empty.
    """

    name: str
    op: int
    detail: int = 0
    quoted: bool = False
    size: int = 24
    label: str | None = None

    @property
    def label_text(self) -> bytes:
        """The text before the value in an object: the member's name and a colon, or nothing."""
        if self.label == "":
            return b""
        return json.dumps(self.label or self.name, ensure_ascii=False).encode() + b":"


@dataclass(frozen=True, slots=True)
class RowPart:
    """A part that writes a row of the message: an object with these columns, or null when the message has no such row.

    `kind` may also be another one of the kernel: `CHANGED`, `OLD`, `MEMBERS`.
    """

    which: int
    fields: tuple[FieldEncoding, ...]
    kind: int = messages.ROW


@dataclass(frozen=True, slots=True)
class Value:
    """A part that writes a value of the message itself, from the column of that name beside the rows.

    It is written as JSON, or by its `kind`. `text` converts a JSON text that all messages share to the message's form.
    """

    field: FieldEncoding
    kind: int = messages.VALUE
    text: Callable[[bytes], bytes] = bytes


@dataclass(frozen=True, slots=True)
class Shared:
    """A part of literals and values that are the same in all messages of one event, and are written once for those."""

    parts: tuple[bytes | Value, ...]


Part = bytes | RowPart | Value | Shared
Metadata = Mapping[str, pa.Array | bytes]
"""The columns with a value per message; bytes are the text that all messages have."""


class Description:
    """Parts in the form that the kernels read: addresses of literals, and of the columns of some rows.

    `size` is the most bytes that they take for `count` messages. Keep the object, the rows and the columns beside them
    alive until the kernel has finished.
    """

    def __init__(self, rows: pa.RecordBatch, beside: Metadata, count: int) -> None:
        self._rows, self._metadata, self._count = rows, beside, count
        self._lines: list[tuple[int, int, int, int]] = []
        self._columns: list[tuple[int, ...]] = []
        self._kept: list[np.ndarray] = []
        self._known: dict[tuple[FieldEncoding, ...], tuple[int, int, int]] = {}
        self.size = _MARGIN

    def addresses(self) -> tuple[int, int, int]:
        """The addresses of int64[p, 4] parts, int64[c, 11] columns, int64[p, 3] zeros. Call after the last `add`."""
        parts = np.array(self._lines, np.int64)
        columns = np.array(self._columns, np.int64)
        memo = np.zeros((len(self._lines), len(messages.MEMO)), np.int64)
        self._kept += [parts, columns, memo]
        return int(parts.ctypes.data), int(columns.ctypes.data), int(memo.ctypes.data)

    def add(self, parts: Sequence[Part]) -> int:
        """Append the description of these parts; return the number of entries that this adds."""
        before = len(self._lines)
        for part in _merge_literals(self._with_texts(parts)):
            if isinstance(part, Shared):
                line = len(self._lines)
                self._lines.append((messages.SHARED, 0, 0, 0))
                nested = self.add(part.parts)
                self._lines[line] = (messages.SHARED, nested, 0, 0)
            elif isinstance(part, RowPart):
                self._row(part)
            elif isinstance(part, Value):
                self._value(part)
            else:
                self._kept.append(literal := np.frombuffer(part, np.uint8))
                self._lines.append((messages.LITERAL, int(literal.ctypes.data), len(literal), 0))
                self.size += self._count * len(literal)
        return len(self._lines) - before

    def _with_texts(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The parts, with texts instead of values that are the same in all messages."""
        for part in parts:
            if isinstance(part, Value) and isinstance(text := self._metadata[part.field.name], bytes):
                yield part.text(text)
            elif isinstance(part, Shared):
                nested = _merge_literals(self._with_texts(part.parts))
                if len(nested) == 1 and isinstance(nested[0], bytes):
                    yield nested[0]
                else:
                    yield part
            else:
                yield part

    def _row(self, part: RowPart) -> None:
        if part.fields not in self._known:
            first, before = len(self._columns), self.size
            for field in part.fields:
                array = self._rows.column(field.name)
                self._kept.append(prefix := _prefix(field))
                size = len(field.label_text)
                self._columns.append(_numbers(field, array, prefix, size))
                self.size += self._count * (size + field.size + 8) + 2 * _size(field, array)
            self._known[part.fields] = first, len(self._columns), self.size - before
        else:
            self.size += self._known[part.fields][2]
        first, last, _ = self._known[part.fields]
        self._lines.append((part.kind, first, last, part.which))
        self.size += self._count * _AROUND

    def _value(self, part: Value) -> None:
        field = part.field
        array = self._metadata[field.name]
        self._lines.append((part.kind, len(self._columns), len(self._columns) + 1, 0))
        self._columns.append(_numbers(field, array, None, 0))
        self.size += self._count * (field.size + 8) + _size(field, array)


def other_columns(parts: Iterable[Part]) -> frozenset[str]:
    """The columns beside the rows that these parts use."""
    found = set()
    for part in parts:
        if isinstance(part, Value):
            found.add(part.field.name)
        elif isinstance(part, Shared):
            found |= other_columns(part.parts)
    return frozenset(found)


def differing(rows: pa.RecordBatch, names: Sequence[str], pairs: np.ndarray) -> np.ndarray:
    """Whether the two rows of each pair (int64[n, 2]) differ in any of the named columns (bool[n])."""
    described = np.array(
        [_numbers(FieldEncoding(name, values.RAW), rows.column(name), None, 0) for name in names], np.int64
    )
    out = np.zeros(len(pairs), np.uint8)
    if len(pairs) and names:
        messages.differing(int(described.ctypes.data), len(described), np.ascontiguousarray(pairs, np.int64), out)
    return out.astype(bool)


def _prefix(field: FieldEncoding) -> np.ndarray:
    """The member's name and a colon, padded to the memory that the kernel reads."""
    text = field.label_text
    found = np.zeros(max(len(text), messages.SHORT_PREFIX), np.uint8)
    found[: len(text)] = np.frombuffer(text, np.uint8)
    return found


def json_text(found: object) -> bytes:
    """A value as JSON without spaces."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _merge_literals(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Merge neighbouring literals into one."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            found[-1] = last + part
        elif part != b"":
            found.append(part)
    return tuple(found)


def _numbers(field: FieldEncoding, array: pa.Array, prefix: np.ndarray | None, size: int) -> tuple[int, ...]:
    at = buffers(array)
    return (
        field.op, at.values, at.validity, at.validity_bit, at.offsets, field.detail, at.bit,
        int(field.quoted), at.width, 0 if prefix is None else int(prefix.ctypes.data), size,
    )  # fmt: skip


def _size(field: FieldEncoding, array: pa.Array) -> int:
    """The most bytes that the texts of a column's values take in addition to `size`."""
    factor = _FACTORS.get(field.op, 0)
    if factor == 0 or len(array) == 0:
        return 0
    offsets = string_offsets(array)
    size = factor * int(offsets[-1] - offsets[0])
    if field.op in _ESCAPED:
        addresses = buffers(array)
        size += ESCAPE_BYTES * int(escapes(addresses.offsets, addresses.values, len(array)))
    return size
