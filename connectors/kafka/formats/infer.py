"""Types from values, for messages that do not describe their columns.

| values | type |
|---|---|
| whole numbers | BIGINT, beyond 64 bits DECIMAL(38, 0) |
| numbers with `.` or an exponent | DOUBLE |
| true, false | BOOLEAN |
| text | STRING |
| objects and lists | JSON |
| of several of these rows | the wider type, else STRING |
| NULL alone | no column yet |
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from cdc.schema import DataType, Kind, TableSchema
from connectors.kafka.formats import convert
from connectors.kafka.formats.blocks import Columns
from connectors.kafka.formats.fields import Field, has_values
from connectors.kafka.formats.groups import Images
from connectors.kafka.formats.scan import Cells, Texts
from connectors.kafka.formats.widen import widened
from connectors.kafka.kernels import ABSENT, ARRAY, ESCAPED, FALSE, FRACTION, INTEGER, NULL, OBJECT, TRUE, scan

_LONG = 18
"""Digits that a 64-bit number has in any case."""

BIGINT, DOUBLE, BOOLEAN = DataType(Kind.BIGINT), DataType(Kind.DOUBLE), DataType(Kind.BOOLEAN)
HUGE, TEXT, JSON = DataType(Kind.DECIMAL, 38, 0), DataType(Kind.STRING), DataType(Kind.JSON)

_HOLDS: dict[DataType, tuple[int, ...]] = {
    BIGINT: (INTEGER,), HUGE: (INTEGER,), DOUBLE: (INTEGER, FRACTION), BOOLEAN: (TRUE, FALSE), JSON: (OBJECT, ARRAY),
}  # fmt: skip
"""The kinds of values that columns of an inferred type take. Others take what they can convert."""


def first_unfit(images: Images, schema: TableSchema, declared: Collection[str] = ()) -> int | None:
    """The first image that has a column which the table has not, or a value that its type does not take.

    The types of `declared` columns stay as they are: whether a value can be read is found out when it is.
    """
    columns = Columns(images, schema.names)
    bad = columns.unknown & ~columns.faults
    for column in schema.columns:
        allowed = _HOLDS.get(column.type)
        if allowed is not None and column.name not in declared:
            bad |= _outside(columns.cells(column.name), column.type, allowed)
    return int(np.argmax(bad)) if bad.any() else None


def _outside(cells: Cells, data_type: DataType, allowed: tuple[int, ...]) -> Any:
    refused = np.ones(ARRAY + 1, bool)
    refused[[*allowed, NULL, ABSENT]] = False
    bad = refused[cells.kinds]
    if data_type == BIGINT:
        long = cells.stops - cells.starts > _LONG
        for row in np.flatnonzero(long & (cells.kinds == INTEGER)) if long.any() else ():
            bad[row] = not -(2**63) <= int(cells.raw(int(row))) < 2**63
    return bad


def inferred(images: Images, known: TableSchema | None) -> tuple[Field, ...]:
    """Fields for all members that the images have, in the order in which they stand; known types are widened."""
    names = list(known.names) if known is not None else []
    while True:
        columns = Columns(images, tuple(names))
        unknown = np.flatnonzero(columns.unknown & ~columns.faults)
        if not len(unknown):
            break
        _add(names, _members(images.rows, int(unknown[0])))
    types = {column.name: column.type for column in known.columns} if known is not None else {}
    found = []
    for name in names:
        cells = columns.cells(name)
        own = types.get(name)
        if own is not None and own not in _HOLDS and own != TEXT:
            found.append(Field(name, own))
        elif has_values(cells):
            seen = _type_of(cells)
            found.append(Field(name, seen if own is None else widened(own, seen)))
        elif own is not None:
            found.append(Field(name, own))
    return tuple(found)


def _type_of(cells: Cells) -> DataType:
    kinds = set(np.unique(cells.kinds).tolist()) - {NULL, ABSENT}
    if kinds == {INTEGER}:
        return _integer(cells)
    if kinds <= {INTEGER, FRACTION}:
        return DOUBLE
    if kinds <= {TRUE, FALSE}:
        return BOOLEAN
    if kinds <= {OBJECT, ARRAY}:
        return JSON
    return TEXT


def _integer(cells: Cells) -> DataType:
    try:
        convert.integers(cells)
    except convert.BadValue:
        longest = int((cells.stops - cells.starts).max())
        return HUGE if longest <= (HUGE.length or 0) else TEXT
    return BIGINT


def _add(names: list[str], members: list[str]) -> None:
    """Put new names behind the member that stands before them."""
    place = 0
    for name in members:
        if name in names:
            place = names.index(name) + 1
        else:
            names.insert(place, name)
            place += 1


def _members(rows: Texts, row: int) -> list[str]:
    """The names of the members of one object that have a value."""
    at, stop = int(rows.begins[row]), int(rows.ends[row])
    room = (stop - at) // 4 + 1
    places = np.zeros((4, room), np.int32)
    kinds = np.zeros(room, np.uint8)
    total = scan.members(rows.address, at, stop, places[0], places[1], places[2], places[3], kinds)
    written = np.full(max(total, 0), ESCAPED, np.uint8)
    names = Cells(rows, places[0, :total], places[1, :total], written)
    return [name for name, kind in zip(convert.text(names).to_pylist(), kinds[:total], strict=True) if kind != NULL]
