"""Unwrap Connect's {"schema": ..., "payload": ...}: schemas are compared as bytes, and each is parsed only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cdc.schema import TableId
from connectors.kafka.formats import connect
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.names import name_problem
from connectors.kafka.formats.scan import Ints, Texts, Tree
from connectors.kafka.kernels import ABSENT, NULL, OBJECT, prefixes

_WRAPPED = Tree({"schema": None, "payload": None})

ROUTED = "__dbz__physicalTableIdentifier"
"""A member that Debezium's ByLogicalTableRouter adds to keys; not needed, since messages name their table."""

_FLINKS = "TableId"

Learn = Callable[[Mapping[str, Any]], "tuple[Field, ...] | None"]
"""Gives the fields of the rows in a Connect schema; None when it has no rows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema: its number among those met, and its columns; None for values that do not have them.

    `prefix` is the beginning of values with the schema; only the schema itself when that follows the payload.
    """

    number: int
    fields: tuple[Field, ...] | None
    prefix: bytes = b""


BARE = Shape(0, None)
_REMEMBERED = 16
"""The number of schemas with which values are compared before they are parsed, latest first."""


@dataclass(frozen=True, slots=True)
class WrappedPayloads:
    """The payloads of the existing values: the values' numbers (int64[n]), texts, and shapes' numbers (int64[n])."""

    numbers: Any
    texts: Texts
    shapes: Any
    unreadable: Mapping[int, str]

    def part(self, numbers: Any) -> WrappedPayloads:
        """The payloads of a mask."""
        texts = self.texts.part(self.texts.begins[numbers], self.texts.ends[numbers])
        return replace(self, numbers=self.numbers[numbers], texts=texts, shapes=self.shapes[numbers])

    def with_added(
        self, numbers: Sequence[int], added: Sequence[bytes], shapes: Sequence[int | None]
    ) -> WrappedPayloads:
        """Insert the payloads of further messages, in order.

        If their shape is None, each takes the shape of the payload before it, or of the first one.
        """
        ends = len(self.texts.data) + np.cumsum([0, *map(len, added)], dtype=np.int64)
        every = np.concatenate((self.numbers, np.array(numbers, np.int64)))
        order = np.argsort(every, kind="stable")
        begins = np.concatenate((self.texts.begins, ends[:-1]))[order].astype(np.int32)
        stops = np.concatenate((self.texts.ends, ends[1:]))[order].astype(np.int32)
        shape_numbers = np.array([-1 if shape is None else shape for shape in shapes], np.int64)
        found = np.concatenate((self.shapes, shape_numbers))[order]
        known = np.flatnonzero(found >= 0)
        if len(known):
            indices = np.searchsorted(known, np.arange(len(found)), side="right") - 1
            found = found[known[np.maximum(indices, 0)]]
        texts = self.texts.with_more(added).part(begins, stops)
        return replace(self, numbers=every[order], texts=texts, shapes=np.maximum(found, BARE.number))


class Opener(Protocol):
    """Unwraps keys and values. `shapes` has the shapes met so far, by their numbers."""

    shapes: list[Shape]

    def unwrap(self, messages: Messages) -> tuple[Messages, WrappedPayloads]:
        """The messages, with keys as JSON where possible, and the payloads of the existing values."""

    def shape_of_key(self, key: bytes | None) -> int | None:
        """The number of the shape of a key's own schema, which only describes the key columns; None without one."""


class Unwrapper:
    """Takes payloads out of JSON values, with their shapes. Remembers the schemas it has met."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._met: dict[bytes, Shape] = {}
        self.shapes: list[Shape] = [BARE]
        self._latest: list[Shape] = []
        self._of_keys: dict[str, int] = {}

    def shape_of_key(self, key: bytes | None) -> int | None:
        """The shape of a key's schema, as in `Opener`."""
        try:
            found = json.loads(key or b"null")
            schema = found.get("schema") if isinstance(found, dict) and found.keys() == {"schema", "payload"} else None
            if not isinstance(schema, dict):
                return None
            text = json.dumps(schema)
            if text not in self._of_keys:
                fields = tuple(field for field in connect.fields_of(schema) if field.name != ROUTED)
                self._of_keys[text] = len(self.shapes)
                self.shapes.append(Shape(len(self.shapes), fields))
        except (ValueError, RecursionError):
            return None
        return self._of_keys[text]

    def unwrap(self, messages: Messages) -> tuple[Messages, WrappedPayloads]:
        """Unwrap messages, as in `Opener`; contiguous values with the same schema are handled together."""
        return messages, self._payloads(messages.values)

    def _payloads(self, values: Texts) -> WrappedPayloads:
        numbers = np.flatnonzero(values.present)
        texts = values.take(numbers)
        of = self._of_heads(texts)
        if of is None:
            texts, of = texts.inline_heads(), np.full(len(texts), -1, np.int64)
        begins, ends, shapes = texts.begins.copy(), texts.ends - (of >= 0).astype(np.int32), of
        unreadable: dict[int, str] = {}
        unknown = np.flatnonzero(of < 0)
        if len(unknown):
            begins[unknown], ends[unknown], shapes[unknown] = self._payload_spans(
                texts.take(unknown), numbers[unknown], unreadable
            )
        return WrappedPayloads(numbers, texts.part(begins, ends), shapes, unreadable).part(shapes >= 0)

    def _of_heads(self, texts: Texts) -> Any:
        """The shapes of texts by their heads (int64[n]; -1 without one); None when a head is no complete schema."""
        found = np.full(len(texts), -1, np.int64)
        if texts.heads is None:
            return found
        for head in np.unique(texts.heads.of).tolist():
            if head >= 0:
                rows = np.flatnonzero(texts.heads.of == head)
                shape = self._of_head(texts.heads.known[head], texts.take(rows[:1]))
                if shape is None:
                    return None
                found[rows] = shape.number
        return found

    def _of_head(self, head: bytes, text: Texts) -> Shape | None:
        """The shape of values with this head, of which `text` is one; None when it cannot be read."""
        if head not in self._met:
            try:
                self._parsed(text.inline_heads(), 0)
            except ValueError:
                return None
        return self._met.get(head)

    def _payload_spans(self, texts: Texts, numbers: Any, unreadable: dict[int, str]) -> tuple[Ints, Ints, Any]:
        """Begins and ends of the texts' payloads, and their shapes; -1 for those that are added to `unreadable`."""
        begins, ends, shapes = texts.begins.copy(), texts.ends.copy(), np.zeros(len(numbers), np.int64)
        at = 0
        while at < len(numbers):
            count = self._run(texts, at, begins, ends, shapes)
            if not count:
                try:
                    shape, begins[at], ends[at] = self._parsed(texts, at)
                except ValueError as error:
                    unreadable[int(numbers[at])] = str(error)
                    shapes[at] = -1
                else:
                    shapes[at] = shape.number
                count = 1
            at += count
        return begins, ends, shapes

    def _run(self, texts: Texts, at: int, begins: Ints, ends: Ints, shapes: Any) -> int:
        """Handle the values from `at` on that have one known shape; return their number."""
        count = int(prefixes.count_without_schema(texts.address, texts.begins, texts.ends, at))
        if count:
            return count  # they are not wrapped: their begins, ends and shape 0 are set already
        for index, shape in enumerate(self._latest):
            prefix = np.frombuffer(shape.prefix, np.uint8)
            count = int(
                prefixes.count_with_prefix(texts.address, texts.begins, texts.ends, at, prefix.ctypes.data, len(prefix))
            )  # fmt: skip
            if count:
                begins[at : at + count] += len(prefix)
                ends[at : at + count] -= 1
                shapes[at : at + count] = shape.number
                self._latest.insert(0, self._latest.pop(index))
                return count
        return 0

    def _parsed(self, texts: Texts, at: int) -> tuple[Shape, int, int]:
        """The shape of one value, and the begin and end of its payload. Raises ValueError."""
        begin, end = int(texts.begins[at]), int(texts.ends[at])
        found = _WRAPPED.scan(texts.take([at]))
        payload, schema = found.cells("payload"), found.cells("schema")
        if found.faults[0] or payload.kinds[0] not in (OBJECT, NULL) or schema.kinds[0] not in (OBJECT, NULL):
            return BARE, begin, end
        if found.unknown[0] >= 0:  # Connect's converter does not allow other members either
            return BARE, begin, end
        first, last = int(payload.starts[0]), int(payload.stops[0])
        if schema.kinds[0] == NULL:
            return BARE, first, last
        schema_first = int(schema.stops[0]) <= first
        prefix = texts.data[begin:first].tobytes() if schema_first else schema.raw(0)
        shape = self._met.get(prefix)
        if shape is None:
            shape = Shape(len(self.shapes), self._learn(_object(schema.raw(0))), prefix)
            self._met[prefix] = shape
            self.shapes.append(shape)
        if last == end - 1 and schema_first and shape not in self._latest:
            self._latest = [shape, *self._latest[: _REMEMBERED - 1]]
        return shape, first, last


def _object(text: bytes) -> Mapping[str, Any]:
    """Parse a schema. Raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("a schema with too many levels") from None
    if not isinstance(found, dict):
        raise ValueError("a schema that is not an object")
    return found


def head_of(text: Texts) -> bytes | None:
    """The text of a value before its payload, if that is the schema and only `}` follows the payload."""
    found = _WRAPPED.scan(text)
    payload, schema = found.cells("payload"), found.cells("schema")
    if found.faults[0] or payload.kinds[0] != OBJECT or schema.kinds[0] != OBJECT:
        return None
    first = int(payload.starts[0])
    if int(payload.stops[0]) != int(text.ends[0]) - 1 or int(schema.stops[0]) > first:
        return None
    return text.data[int(text.begins[0]) : first].tobytes()


def key_object(key: bytes | None) -> dict[str, Any] | None:
    """The members of a message's key, with or without a schema around it; None when the key is not an object."""
    if key is None:
        return None
    try:
        found = json.loads(key)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    return found if isinstance(found, dict) and not any(map(name_problem, found)) else None


def key_columns(key: Mapping[str, Any], table: TableId | None = None) -> dict[str, Any]:
    """The members of a key that are columns. Flink CDC's sink adds the name of the table as TableId."""
    no_columns = {ROUTED} if table is None or key.get(_FLINKS) not in (str(table), table.table) else {ROUTED, _FLINKS}
    return {name: value for name, value in key.items() if name not in no_columns}


def by_key(messages: Messages, numbers: Any, members: Any) -> Iterator[Any]:
    """Split `members` into parts whose keys have the same columns; one without a key belongs to those before it."""
    while len(members):
        present = messages.keys.present[numbers[members]]
        if not present.any():
            yield members
            return
        same = ~present
        first = numbers[members[np.argmax(present)]]
        same[present] = _have_columns(
            messages.keys.take(numbers[members[present]]).inline_heads(), key_object(messages.key(int(first)))
        )
        yield members[same]
        members = members[~same]


def _have_columns(keys: Texts, columns: Mapping[str, Any] | None) -> Any:
    """The keys (bool[n]) that are objects with these columns, or for None no objects; always includes the first.

    A schema around a key, and further members without a value, are ignored.
    """
    names: dict[str, None] = dict.fromkeys(columns or ())
    found = Tree({**names, "schema": None, "payload": names}).scan(keys)
    objects = found.faults == 0
    if columns is None:
        same = ~objects
    else:
        plain = objects & (found.unknown < 0)
        for name in ("schema", "payload"):
            if name not in names:
                plain &= found.cells(name).kinds == ABSENT
        wrapped = objects & (found.cells("payload").kinds == OBJECT) & (found.unknown < 0)
        for name in names:
            plain &= found.cells(name).kinds != ABSENT
            wrapped &= found.cells("payload", name).kinds != ABSENT
        same = plain | wrapped
    same[0] = True
    return same
