"""Read plain JSON: a message's value is the row; one without a value deletes the row of its key (a compacted topic).

Rows that Debezium's ExtractNewRecordState took out of their envelopes have this format too; those whose member
`__deleted` is true are deletes. Connect's converter writes tombstones as `null`, with or without a schema around it.
"""

from __future__ import annotations

import json
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
    rows_by_table,
)
from connectors.kafka.formats.modes import DecodingModes
from connectors.kafka.formats.scan import Cells, Texts, Tree
from connectors.kafka.formats.wrapped import Opener, Unwrapper, WrappedPayloads, by_key, key_columns, key_object
from connectors.kafka.kernels import STRING, TRUE

_DELETED = "__deleted"
_OBJECT = Tree({_DELETED: None})


class PlainFormat:
    """Reads rows, with or without Connect's schema around them.

    `zone` is the time zone of instants without one. `modes` are the settings of the Debezium connector that wrote the
    values; None for rows of other programs.
    """

    def __init__(self, zone: str = "UTC", wrapped: Opener | None = None, modes: DecodingModes | None = None) -> None:
        self._zone, self._modes = zone, modes
        self._wrapped = wrapped or Unwrapper(connect.fields_of)

    def natural(self, column: Column) -> Field:
        """The field of a column that messages do not describe: by the modes, else numeric times are milliseconds."""
        if self._modes is not None:
            return self._modes.natural(column)
        return Field(column.name, column.type, unit_us=1000, zone=self._zone)

    def read(self, messages: Messages, table: TableId | None = None) -> Reading:
        """Read messages, as in `Format`. Tables without a key only have inserts."""
        reading = Reading()
        messages, found = self._wrapped.unwrap(messages)
        reading.unreadable.update(found.unreadable)
        present = messages.values.present.copy()
        tombstone = _equals(found.texts, b"null")
        present[found.numbers[tombstone]] = False
        rows = found.part(~tombstone)
        if not present.all():
            rows = _with_deletes(messages, reading, np.flatnonzero(~present), rows)
        if len(rows.texts):
            self._sort(messages, reading, rows, present)
        return reading

    def _sort(self, messages: Messages, reading: Reading, found: WrappedPayloads, present: Any) -> None:
        numbers, texts, shapes = found.numbers, found.texts, found.shapes
        scan = _OBJECT.scan(texts)
        deleted = _says_true(scan.cells(_DELETED))
        for row in np.flatnonzero(scan.faults).tolist():
            reading.unreadable[int(numbers[row])] = scan.fault(row)
        good = np.flatnonzero(scan.faults == 0)
        kinds = np.where(present[numbers] & ~deleted, AFTER, DELETE).astype(np.uint8)
        table = TableId.parse(messages.topic)
        shape_numbers = shapes[good]
        for _, shape, rows in rows_by_table(
            reading, numbers, good, shape_numbers, lambda row: (table, int(shape_numbers[row]))
        ):
            for members in by_key(messages, numbers, rows):
                images = MessageImages(
                    texts.part(texts.begins[members], texts.ends[members]), None, numbers[members],
                    np.zeros(len(members), np.int32), kinds[members], messages.times_ms[numbers[members]],
                )  # fmt: skip
                keyed = messages.keys.present[numbers[members]]
                key = key_object(messages.key(int(numbers[members[np.argmax(keyed)]])))
                names = None if key is None else tuple(key_columns(key))
                reading.groups.append(
                    TableGroup(table, self._wrapped.shapes[shape].fields, names, images, upserts=True)
                )


def _says_true(cells: Cells) -> Any:
    """The values (bool[n]) that are true, or the text "true"."""
    return (cells.kinds == TRUE) | (
        (cells.kinds == STRING) & _equals(cells.texts.part(cells.starts, cells.stops), b"true")
    )


def _equals(texts: Texts, expected: bytes) -> Any:
    """The texts (bool[n]) that are this word."""
    found = texts.ends - texts.begins == len(expected)
    for index, byte in enumerate(expected):
        found[found] = texts.data[texts.begins[found] + index] == byte
    return found


def _with_deletes(messages: Messages, reading: Reading, deletes: Any, rows: WrappedPayloads) -> WrappedPayloads:
    """The rows and deletes in the order of the messages. A delete only has the columns of its key."""
    keys = {number: key_object(messages.key(number)) for number in deletes.tolist()}
    found = {
        number: json.dumps(key_columns(key)).encode()
        for number, key in keys.items() if key is not None
    }  # fmt: skip
    why = "a delete (no value) whose key is not a JSON object with the key columns"
    reading.unreadable.update(dict.fromkeys(keys.keys() - found.keys(), why))
    return rows.with_added([*found], [*found.values()], [None] * len(found))
