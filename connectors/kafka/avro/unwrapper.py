"""Convert messages in Confluent's wire format to JSON: a zero byte, four bytes with the schema's number, then Avro.

The result is the text that Connect's JsonConverter would write, without the schema around it; the schema comes from the
registry. So a column has the same type and the same values whichever converter wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from connectors.kafka.avro.kernels import to_json
from connectors.kafka.avro.registry import Registry, UnreadableSchema
from connectors.kafka.avro.schemas import Program
from connectors.kafka.formats import connect
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.scan import Texts
from connectors.kafka.formats.wrapped import BARE, Learn, Shape, WrappedPayloads

_HEADER = 5
_NO_FRAME = "no Avro with the number of its schema before it (a zero byte and four more); those in headers are not read"
_PADDING = 8
_FIRST_ROOM = 4
"""The first estimate of how many times longer the text is than the Avro."""
_MOST = (1 << 31) - 64
"""The most bytes of text in a buffer, since their positions are numbers of 32 bits."""


class AvroUnwrapper:
    """Converts Avro values to JSON. Remembers the schemas it has met.

    Args:
        rows: as in `schemas.program`.
    """

    def __init__(self, learn: Learn, registry: Registry, rows: int) -> None:
        self._learn, self._registry, self._rows = learn, registry, rows
        self._known: dict[int, Shape] = {}
        self._of_keys: dict[int, int | None] = {}
        self.shapes: list[Shape] = [BARE]

    def unwrap(self, messages: Messages) -> tuple[Messages, WrappedPayloads]:
        """The messages with their keys as JSON, and the values as JSON. A key that is not Avro stays as it is.

        Raises the errors of the registry.
        """
        keys, _, bad_keys = self._texts(messages.keys, others=True)
        values, numbers, bad = self._texts(messages.values, others=False)
        unreadable = {**bad, **{row: f"its key: {reason}" for row, reason in bad_keys.items()}}
        present = messages.values.present.copy()
        present[list(unreadable)] = False
        rows = np.flatnonzero(present)
        shapes = np.zeros(len(rows), np.int64)
        for number in np.unique(numbers[rows]).tolist():
            shapes[numbers[rows] == number] = self._shape(number).number
        return replace(messages, keys=keys), WrappedPayloads(rows, values.take(rows), shapes, unreadable)

    def shape_of_key(self, key: bytes | None) -> int | None:
        """The shape of a key's schema, as in `Opener`."""
        if key is None or len(key) < _HEADER or key[0]:
            return None
        number = int.from_bytes(key[1:_HEADER], "big")
        if number not in self._of_keys:
            try:
                fields = connect.fields_of(self._registry.program(number, self._rows).connect)
            except ValueError:
                self._of_keys[number] = None
            else:
                self._of_keys[number] = len(self.shapes)
                self.shapes.append(Shape(len(self.shapes), fields))
        return self._of_keys[number]

    def _shape(self, number: int) -> Shape:
        shape = self._known.get(number)
        if shape is None:
            try:
                fields = self._learn(self._registry.program(number, self._rows).connect)
            except ValueError as error:
                raise UnreadableSchema(str(error)) from error
            shape = self._known[number] = Shape(len(self.shapes), fields)
            self.shapes.append(shape)
        return shape

    def _texts(self, texts: Texts, *, others: bool) -> tuple[Texts, Any, dict[int, str]]:
        """The texts as JSON, the numbers of their schemas, and why some cannot be read.

        `others`: texts that are not Avro stay as they are, instead of being unreadable.
        """
        present = texts.present
        data = texts.data
        marked = np.zeros(len(texts), bool)
        marked[present] = (data[texts.begins[present]] == 0) & (texts.ends[present] > texts.begins[present])
        framed = marked & (texts.ends - texts.begins >= _HEADER)
        numbers = np.zeros(len(texts), np.int64)
        rows = np.flatnonzero(framed)
        for byte_index in range(1, _HEADER):
            numbers[rows] = numbers[rows] << 8 | data[texts.begins[rows] + byte_index]
        if others:  # schema numbers begin at 1; with a zero there, it is a small plain number that begins with zeros
            framed &= numbers > 0
            rows = np.flatnonzero(framed)
        bad = {} if others else dict.fromkeys(np.flatnonzero(present & ~framed).tolist(), _NO_FRAME)
        if others and not len(rows):
            return texts, numbers, bad
        written = WrittenTexts(int((texts.ends[rows] - texts.begins[rows]).sum()), len(texts))
        for number in np.unique(numbers[rows]).tolist():
            members = rows[numbers[rows] == number]
            try:
                program = self._registry.program(number, self._rows)
                if not others:
                    self._shape(number)
            except UnreadableSchema as error:
                bad.update(dict.fromkeys(members.tolist(), str(error)))
                continue
            for row in written.add(program, texts, members):
                bad[row] = f"its bytes are not of schema {number}"
        unframed = np.flatnonzero(present & ~framed).tolist() if others else []
        return written.texts([(row, texts.bytes_of(row)) for row in unframed]), numbers, bad


class WrittenTexts:
    """A buffer of texts, with the position of each row's text; -1 for none."""

    def __init__(self, size: int, rows: int) -> None:
        self._data = np.empty(_FIRST_ROOM * size + _PADDING, np.uint8)
        self._used = 0
        self._begins, self._ends = np.full((2, rows), -1, np.int32)
        self._frames = np.zeros((to_json.DEEPEST, to_json.FRAME), np.int64)

    def add(self, made: Program, texts: Texts, rows: Any) -> list[int]:
        """Write these rows, and return those that do not fit the schema."""
        begins, ends = texts.begins[rows] + _HEADER, texts.ends[rows]
        own_begins, own_ends = np.full((2, len(rows)), -1, np.int64)
        done = 0
        while done < len(rows):
            done = to_json.json_texts(
                made.nodes.ctypes.data, made.children.ctypes.data, made.names.ctypes.data, texts.address, begins, ends,
                done, self._data.ctypes.data, self._used, len(self._data) - _PADDING, own_begins, own_ends,
                self._frames.ctypes.data,
            )  # fmt: skip
            self._used = max(self._used, int(own_ends[:done].max(initial=0)))
            if done < len(rows) and not self._grow():
                done += 1
        self._begins[rows], self._ends[rows] = own_begins, own_ends
        return list(np.asarray(rows)[own_begins < 0].tolist())

    def _grow(self) -> bool:
        """Enlarge the buffer; False when it has the greatest size."""
        size = min(2 * len(self._data) + (1 << 16), _MOST)
        if size <= len(self._data):
            return False
        data = np.empty(size, np.uint8)
        data[: self._used] = self._data[: self._used]
        self._data = data
        return True

    def texts(self, unframed: Sequence[tuple[int, bytes]]) -> Texts:
        """All texts; the `unframed` ones unchanged."""
        if not unframed:
            return Texts(self._data, self._begins, self._ends)
        more = b"".join(text for _, text in unframed)
        data = np.concatenate((self._data[: self._used], np.frombuffer(more + bytes(_PADDING), np.uint8)))
        at = self._used
        for row, text in unframed:
            self._begins[row], self._ends[row] = at, at + len(text)
            at += len(text)
        return Texts(data, self._begins, self._ends)
