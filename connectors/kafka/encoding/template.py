"""Texts of messages out of parts: literals, rows and values, written by a kernel from the buffers of a block."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.kernels.strings import ESCAPE_BYTES, escapes
from connectors.shared.kernels.buffers import buffers, string_offsets

BEFORE, AFTER, KEY = messages.BEFORE, messages.AFTER, messages.KEY
_MARGIN = 256
_AROUND = 16
"""The most bytes that a row takes beside its members: braces, brackets, the name `old`."""

_ESCAPED = (values.TEXT,)
_FACTORS = {
    values.TEXT: 1, values.RAW: 1, values.CSV: 2, values.BASE64: 2, values.BACKWARDS: 2, values.HEX: 2,
    values.GEOMETRY: 2, values.POINT: 2, values.LATIN1: 6, values.FLOATS: 25,
}  # fmt: skip
"""The most bytes of text for a byte, or an item, of a value of any length."""


@dataclass(frozen=True, slots=True)
class Field:
    """How a column's values are written: `op` of the kernels, its `detail`, and the most bytes that a value takes.

    `room` does not count the bytes of values of any length, whose text grows with them. `label` is the member's name
    in objects where that is not the column's; empty for none.
    """

    name: str
    op: int
    detail: int = 0
    quoted: bool = False
    room: int = 24
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A part: a row of the message as an object of these columns, null when the message has none; or another `kind`
    of the kernel's: `CHANGED`, `OLD`, `MEMBERS`."""

    which: int
    fields: tuple[Field, ...]
    kind: int = messages.ROW


@dataclass(frozen=True, slots=True)
class Value:
    """A part: a value of the message itself, from the column of that name beside the rows."""

    field: Field


Part = bytes | Row | Value


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one behind the other: text i ends at `ends[i]`, and begins where the one before ends."""

    data: memoryview
    ends: np.ndarray

    def bounds(self) -> list[tuple[int, int]]:
        """Where each text begins and ends."""
        stops = self.ends.tolist()
        return list(zip([0, *stops[:-1]], stops, strict=True)) if stops else []


class Template:
    """Writes texts of one layout. Executor; built once per table and schema, used by one thread."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = _joined(parts)
        self._literals = [np.frombuffer(part, np.uint8) if isinstance(part, bytes) else None for part in self._parts]
        self._prefixes = {
            field: np.frombuffer(_prefix(field), np.uint8)
            for part in self._parts
            if isinstance(part, Row)
            for field in part.fields
        }

    def write(self, rows: pa.RecordBatch, beside: Mapping[str, pa.Array], picks: np.ndarray, skip: np.ndarray) -> Texts:
        """One text per message.

        Args:
            rows: row images; fields of rows are columns of it.
            beside: columns with a value per message.
            picks: int64[m, 3], the message's rows: before, after, key; -1 is none.
            skip: uint8[m], 1 for a message that gets no text.
        """
        count = len(picks)
        parts = np.zeros((len(self._parts), len(messages.PART)), np.int64)
        columns: list[tuple[int, ...]] = []
        room = _MARGIN
        for line, part, literal in zip(parts, self._parts, self._literals, strict=True):
            if literal is not None:
                line[:] = messages.LITERAL, literal.ctypes.data, len(literal), 0
                room += count * len(literal)
            elif isinstance(part, Row):
                line[:] = part.kind, len(columns), len(columns) + len(part.fields), part.which
                room += count * _AROUND
                for field in part.fields:
                    array, prefix = rows.column(field.name), self._prefixes[field]
                    columns.append(_numbers(field, array, prefix))
                    room += count * (len(prefix) + field.room + 8) + 2 * _size(field, array)
            elif isinstance(part, Value):
                line[:] = messages.VALUE, len(columns), len(columns) + 1, 0
                array = beside[part.field.name]
                columns.append(_numbers(part.field, array, None))
                room += count * (part.field.room + 8) + _size(part.field, array)
        described = np.array(columns, np.int64).reshape(len(columns), len(values.FIELDS))
        skip = np.ascontiguousarray(skip, np.uint8)
        out, ends = np.empty(room, np.uint8), np.empty(count, np.int64)
        start = int(out.ctypes.data)
        picks = np.ascontiguousarray(picks, np.int64)
        end = messages.write_texts(parts, described, picks, int(skip.ctypes.data), start, ends)
        return Texts(out.data[: end - start], ends)


def differing(rows: pa.RecordBatch, names: Sequence[str], pairs: np.ndarray) -> np.ndarray:
    """bool[n]: whether any of the named columns differs between the two rows of each pair, int64[n, 2]."""
    described = np.array([_numbers(Field(name, values.RAW), rows.column(name), None) for name in names], np.int64)
    out = np.zeros(len(pairs), np.uint8)
    if len(pairs) and names:
        messages.differing(described, np.ascontiguousarray(pairs, np.int64), out)
    return out.astype(bool)


def _prefix(field: Field) -> bytes:
    if field.label == "":
        return b""
    return json.dumps(field.label or field.name, ensure_ascii=False).encode() + b":"


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Literals that stand side by side as one."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            found[-1] = last + part
        elif part != b"":
            found.append(part)
    return tuple(found)


def _numbers(field: Field, array: pa.Array, prefix: np.ndarray | None) -> tuple[int, ...]:
    place = buffers(array)
    return (
        field.op, place.values, place.validity, place.validity_bit, place.offsets, field.detail, place.bit,
        int(field.quoted), place.width, 0 if prefix is None else int(prefix.ctypes.data),
        0 if prefix is None else len(prefix),
    )  # fmt: skip


def _size(field: Field, array: pa.Array) -> int:
    """The most bytes that the texts of a column's values take beside `room`."""
    factor = _FACTORS.get(field.op, 0)
    if factor == 0 or len(array) == 0:
        return 0
    offsets = string_offsets(array)
    taken = factor * int(offsets[-1] - offsets[0])
    if field.op in _ESCAPED:
        place = buffers(array)
        taken += ESCAPE_BYTES * int(escapes(place.offsets, place.values, len(array)))
    return taken
