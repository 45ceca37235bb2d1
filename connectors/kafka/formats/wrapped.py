"""Connect's {"schema": ..., "payload": ...} around values: the schema is compared byte by byte, and read once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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


class Unwrapper:
    """Takes payloads out of values, with their shapes. Remembers the schemas it has met."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._met: dict[bytes, Shape] = {}
        self.shapes: list[Shape] = [BARE]
        self._prefix, self._shape = b"", BARE

    def payload(self, value: bytes) -> tuple[bytes, Shape]:
        """The payload of a value; a value without a schema around it is its own. Raises ValueError."""
        if self._prefix and value.startswith(self._prefix) and value[-1] == 125:
            return value[len(self._prefix) : -1], self._shape
        if b'"payload"' not in value:
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
