"""Plain JSON: a message's value is the row, one without a value deletes the row of its key (a compacted topic)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from cdc.schema import Column, TableId
from connectors.kafka.formats import connect
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import AFTER, DELETE, Group, Images, Messages, Reading, consecutive, gathered
from connectors.kafka.formats.scan import Texts, Tree
from connectors.kafka.formats.wrapped import BARE, Unwrapper, key_object

_OBJECT = Tree({})


class PlainFormat:
    """Reads rows, with and without Connect's schema around them. `zone` is the clock of instants without a zone."""

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone
        self._wrapped = Unwrapper(connect.fields_of)

    def natural(self, column: Column) -> Field:
        """As in `Format`: moments that are numbers are milliseconds."""
        return Field(column.name, column.type, unit_us=1000, zone=self._zone)

    def read(self, messages: Messages) -> Reading:
        """As in `Format`. Rows of a table without a key can only be added."""
        reading = Reading()
        numbers: list[int] = []
        texts: list[bytes] = []
        shapes: list[int] = []
        kinds: list[int] = []
        for number, value in enumerate(messages.values):
            try:
                text, shape = _row_of_key(messages, number) if value is None else self._wrapped.payload(value)
            except ValueError as error:
                reading.unreadable[number] = str(error)
                continue
            numbers.append(number)
            texts.append(text)
            shapes.append(shape.number)
            kinds.append(DELETE if value is None else AFTER)
        if texts:
            self._sort(messages, reading, np.array(numbers), Texts.of(texts), shapes, np.array(kinds, np.uint8))
        return reading

    def _sort(
        self, messages: Messages, reading: Reading, numbers: Any, texts: Texts, shapes: list[int], kinds: Any
    ) -> None:
        faults = _OBJECT.scan(texts).faults
        for place in np.flatnonzero(faults).tolist():
            reading.unreadable[int(numbers[place])] = f"no JSON object (byte {faults[place] - 1 - texts.begins[place]})"
        good = np.flatnonzero(faults == 0)
        of_shape = np.array(shapes, np.int64)
        # A delete has the columns of its key alone, and goes with whatever rows stand before it.
        for at in good.tolist():
            if kinds[at] == DELETE and at:
                of_shape[at] = of_shape[at - 1]
        table = TableId.parse(messages.topic)
        parts = [(table, int(of_shape[good[first]]), good[first:last]) for first, last in consecutive(of_shape[good])]
        for found, shape, members in gathered(parts):
            times = np.array([messages.times_ms[number] for number in numbers[members].tolist()], np.int64)
            images = Images(
                texts.part(texts.begins[members], texts.ends[members]), None, numbers[members],
                np.zeros(len(members), np.int32), kinds[members], times,
            )  # fmt: skip
            keys = (messages.keys[number] for number in numbers[members].tolist())
            key = key_object(next(filter(None, keys), None))
            names = None if key is None else tuple(key)
            reading.groups.append(Group(found, self._wrapped.shapes[shape].fields, names, images, upserts=True))


def _row_of_key(messages: Messages, number: int) -> tuple[bytes, Any]:
    found = key_object(messages.keys[number])
    if found is None:
        raise ValueError("a delete (no value) whose key is no JSON object with the key columns")
    return json.dumps(found).encode("utf-8"), BARE
