"""Connect's {"schema": ..., "payload": ...} around values: the schema is compared byte by byte, and read once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.scan import Texts, Tree
from connectors.kafka.kernels import NULL, OBJECT

_WRAPPED = Tree({"schema": None, "payload": None})

Learn = Callable[[Mapping[str, Any]], "tuple[Field, ...] | None"]
"""The fields of the rows in a Connect schema; None when it has no rows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema says: its number among those met, and the columns; None for values that do not tell."""

    number: int
    fields: tuple[Field, ...] | None


BARE = Shape(0, None)
_ENVELOPE = b'{"before"'
"""How Debezium's envelope begins when nothing is around it."""


@dataclass(slots=True)
class Payloads:
    """Payloads with the numbers of their values and of their shapes, and the reasons of those that have none."""

    numbers: list[int]
    payloads: list[bytes]
    shapes: list[int]
    unreadable: dict[int, str]


class Unwrapper:
    """Takes payloads out of values, with their shapes. Remembers the schemas it has met."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._met: dict[bytes, Shape] = {}
        self.shapes: list[Shape] = [BARE]
        self._prefix, self._shape = b"", BARE

    def payloads(self, values: Sequence[bytes | None]) -> Payloads:
        """The payloads of all values there are; values that follow one of the same schema are taken in one go."""
        found = Payloads([], [], [], {})
        number, total = 0, len(values)
        while number < total:
            value = values[number]
            if value is not None:
                try:
                    payload, shape = self.payload(value)
                except ValueError as error:
                    found.unreadable[number] = str(error)
                else:
                    found.numbers.append(number)
                    found.payloads.append(payload)
                    found.shapes.append(shape.number)
            number += 1
            number += self._run(values, number, found) if self._prefix else 0
        return found

    def _run(self, values: Sequence[bytes | None], first: int, found: Payloads) -> int:
        """Take the values that begin as the last one did; how many."""
        prefix, cut = self._prefix, len(self._prefix)
        count = 0
        for at in range(first, len(values)):
            value = values[at]
            if value is None or not value.startswith(prefix) or value[-1] != 125:
                break
            found.payloads.append(value[cut:-1])
            count += 1
        found.numbers.extend(range(first, first + count))
        found.shapes.extend([self._shape.number] * count)
        return count

    def payload(self, value: bytes) -> tuple[bytes, Shape]:
        """The payload of a value; a value without a schema around it is its own. Raises ValueError."""
        if self._prefix and value.startswith(self._prefix) and value[-1] == 125:
            return value[len(self._prefix) : -1], self._shape
        if value.startswith(_ENVELOPE) or b'"payload"' not in value:
            return value, BARE
        found = _WRAPPED.scan(Texts.of([value]))
        payload, schema = found.cells("payload"), found.cells("schema")
        if found.faults[0] or payload.kinds[0] not in (OBJECT, NULL) or schema.kinds[0] not in (OBJECT, NULL):
            return value, BARE
        if schema.kinds[0] == NULL:
            return payload.raw(0), BARE
        prefix, behind = value[: payload.starts[0]], value[payload.stops[0] :]
        shape = self._met.get(prefix)
        if shape is None:
            shape = self._met[prefix] = Shape(len(self.shapes), self._learn(json.loads(schema.raw(0))))
            self.shapes.append(shape)
        if behind == b"}" and schema.stops[0] <= payload.starts[0]:
            self._prefix, self._shape = prefix, shape
        return payload.raw(0), shape


def key_object(key: bytes | None) -> dict[str, Any] | None:
    """The members of a message's key, with or without a schema around it; None when it is no object."""
    if key is None:
        return None
    try:
        found = json.loads(key)
    except ValueError:
        return None
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    return found if isinstance(found, dict) else None
