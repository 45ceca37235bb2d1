"""Plain JSON: a message's value is the row, one without a value deletes the row of its key (a compacted topic).

Rows that Debezium's ExtractNewRecordState has taken out of envelopes are such rows; those whose member `__deleted` is
true are deleted. Connect's converter writes its tombstones as `null`, with a schema around it or without.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.schema import Column, TableId
from connectors.kafka.formats import connect
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import (
    AFTER,
    DELETE,
    MessageImages,
    Messages,
    Reading,
    TableGroup,
    consecutive,
    gathered,
)
from connectors.kafka.formats.scan import Cells, Texts, Tree
from connectors.kafka.formats.wrapped import Opener, Unwrapper, WrappedPayloads, by_key, key_object
from connectors.kafka.kernels import STRING, TRUE

_DELETED = "__deleted"
_OBJECT = Tree({_DELETED: None})


class PlainFormat:
    """Reads rows, with and without Connect's schema around them. `zone` is the clock of instants without a zone."""

    def __init__(self, zone: str = "UTC", wrapped: Opener | None = None) -> None:
        self._zone = zone
        self._wrapped = wrapped or Unwrapper(connect.fields_of)

    def natural(self, column: Column) -> Field:
        """The natural types, as in `Format`: moments that are numbers are milliseconds."""
        return Field(column.name, column.type, unit_us=1000, zone=self._zone)

    def read(self, messages: Messages, table: TableId | None = None) -> Reading:
        """Read messages, as in `Format`. Rows of a table without a key can only be added."""
        reading = Reading()
        messages, found = self._wrapped.opened(messages)
        reading.unreadable.update(found.unreadable)
        there = messages.values.there.copy()
        gone = _says(found.texts, b"null")
        there[found.numbers[gone]] = False
        rows = replace(
            found,
            numbers=found.numbers[~gone],
            texts=found.texts.take(np.flatnonzero(~gone)),
            shapes=found.shapes[~gone],
        )
        numbers, texts, shapes = rows.numbers, rows.texts, rows.shapes
        if not there.all():
            numbers, texts, shapes = _with_deletes(messages, reading, np.flatnonzero(~there), rows)
        if len(texts):
            self._sort(messages, reading, numbers, texts, shapes, there)
        return reading

    def _sort(self, messages: Messages, reading: Reading, numbers: Any, texts: Texts, shapes: Any, there: Any) -> None:
        scan = _OBJECT.scan(texts)
        deleted = _says_true(scan.cells(_DELETED))
        for place in np.flatnonzero(scan.faults).tolist():
            reading.unreadable[int(numbers[place])] = scan.fault(place)
        good = np.flatnonzero(scan.faults == 0)
        kinds = np.where(there[numbers] & ~deleted, AFTER, DELETE).astype(np.uint8)
        table = TableId.parse(messages.topic)
        parts = [(table, int(shapes[good[first]]), good[first:last]) for first, last in consecutive(shapes[good])]
        for _, shape, rows in gathered(parts):
            for members in by_key(messages, numbers, rows):
                images = MessageImages(
                    texts.part(texts.begins[members], texts.ends[members]), None, numbers[members],
                    np.zeros(len(members), np.int32), kinds[members], messages.times_ms[numbers[members]],
                )  # fmt: skip
                keyed = messages.keys.there[numbers[members]]
                key = key_object(messages.key(int(numbers[members[np.argmax(keyed)]])))
                names = None if key is None else tuple(key)
                reading.groups.append(
                    TableGroup(table, self._wrapped.shapes[shape].fields, names, images, upserts=True)
                )


def _says_true(cells: Cells) -> Any:
    """bool[n] values that are true, or "true" as a text."""
    return (cells.kinds == TRUE) | (
        (cells.kinds == STRING) & _says(cells.texts.part(cells.starts, cells.stops), b"true")
    )


def _says(texts: Texts, word: bytes) -> Any:
    """bool[n] texts that are this word."""
    found = texts.ends - texts.begins == len(word)
    for place, letter in enumerate(word):
        found[found] = texts.data[texts.begins[found] + place] == letter
    return found


def _with_deletes(messages: Messages, reading: Reading, deletes: Any, rows: WrappedPayloads) -> tuple[Any, Texts, Any]:
    """Rows and deletes in the order of the messages: numbers, texts and shapes.

    A delete has the columns of its key alone, and goes with whatever rows stand before it.
    """
    found, keys = list[int](), list[bytes]()
    for number in deletes.tolist():
        key = key_object(messages.key(number))
        if key is None:
            reading.unreadable[number] = "a delete (no value) whose key is no JSON object with the key columns"
        else:
            found.append(number)
            keys.append(json.dumps(key).encode("utf-8"))
    numbers = np.concatenate((rows.numbers, np.array(found, np.int64)))
    ends = len(rows.texts.data) + np.cumsum([0, *map(len, keys)], dtype=np.int64)
    begins = np.concatenate((rows.texts.begins, ends[:-1])).astype(np.int32)
    order = np.argsort(numbers, kind="stable")
    of_row = np.concatenate((np.ones(len(rows.numbers), bool), np.zeros(len(found), bool)))[order]
    before = np.maximum.accumulate(np.where(of_row, np.arange(len(order)), -1))
    shapes = np.concatenate((rows.shapes, np.zeros(len(found), np.int64)))[order]
    texts = rows.texts.with_more(keys)
    stops = np.concatenate((rows.texts.ends, ends[1:])).astype(np.int32)
    return numbers[order], texts.part(begins[order], stops[order]), np.where(before < 0, 0, shapes[before])
