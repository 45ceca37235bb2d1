"""Infer types from values, for messages that do not describe their columns.

| values | type |
|---|---|
| whole numbers | BIGINT, beyond 64 bits DECIMAL(38, 0) |
| numbers with `.` or an exponent | DOUBLE |
| true, false | BOOLEAN |
| text | STRING |
| objects and lists | JSON |
| several of these kinds | the wider type, else STRING |
| only NULL | no column yet |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdc.schema import DataType, Kind, TableSchema
from connectors.kafka.formats import convert
from connectors.kafka.formats.blocks import Columns
from connectors.kafka.formats.fields import Field, has_values
from connectors.kafka.formats.groups import MessageImages
from connectors.kafka.formats.names import check_columns
from connectors.kafka.formats.scan import Cells, Texts
from connectors.kafka.formats.widen import widened
from connectors.kafka.kernels import (
    ABSENT,
    ARRAY,
    ESCAPED,
    FALSE,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
    TRUE,
    scan,
)

_LONG = 18
"""The digits up to which every number fits into 64 bits."""

BIGINT, DOUBLE, BOOLEAN = DataType(Kind.BIGINT), DataType(Kind.DOUBLE), DataType(Kind.BOOLEAN)
HUGE, TEXT, JSON = DataType(Kind.DECIMAL, 38, 0), DataType(Kind.STRING), DataType(Kind.JSON)

_SEEN = {
    STRING: TEXT, ESCAPED: TEXT, INTEGER: BIGINT, FRACTION: DOUBLE, TRUE: BOOLEAN, FALSE: BOOLEAN, OBJECT: JSON,
    ARRAY: JSON,
}  # fmt: skip
"""The type inferred from a value of each kind."""
_FITS, _NEEDS, _REFUSED = range(3)


def _verdicts(data_type: DataType) -> Any:
    """By kind (uint8[kind]): whether a value fits an inferred type, needs a wider one, or excludes any exact one.

    A column can only become STRING with the first messages of its table: numbers that are in the sink already cannot be
    converted to their original text for certain.
    """
    found = np.zeros(ARRAY + 1, np.uint8)
    for kind, seen in _SEEN.items():
        wider = widened(data_type, seen)
        found[kind] = _FITS if wider == data_type else _REFUSED if wider == TEXT else _NEEDS
    return found


_VERDICTS = {own: _verdicts(own) for own in (BIGINT, DOUBLE, BOOLEAN, HUGE, JSON)}
"""The verdicts by inferred type. Columns of other types take every value that can be converted."""


@dataclass(frozen=True, slots=True)
class UnfitRows:
    """Images that do not fit a table's schema.

    Attributes:
        needs: those that need another schema (bool[n]).
        refused: those that fit none, with the reason.
    """

    needs: Any
    refused: Mapping[int, str]


def unfit_rows(
    columns: Columns, images: MessageImages, schema: TableSchema, declared: Collection[str] = ()
) -> UnfitRows:
    """Find the images that cannot be rows of the table as it is. `columns` has their values in the table's columns.

    The types of `declared` columns never change: whether a value fits is only found out when it is read.
    """
    needs, refused = np.zeros(len(images), bool), dict[int, str]()
    for row in np.flatnonzero(columns.unknown & ~columns.faults).tolist():
        try:
            _new_names(images.rows, row, schema.names)
        except ValueError as error:
            refused[row] = str(error)
        else:
            needs[row] = True
    for column in schema.columns:
        verdicts = _VERDICTS.get(column.type)
        if verdicts is not None and column.name not in declared:
            cells = columns.cells(column.name)
            found = verdicts[cells.kinds]
            if column.type == BIGINT:
                _check_long(cells, found)
            for row in np.flatnonzero(found == _REFUSED).tolist():
                shown = cells.raw(row)[:40].decode("utf-8", "replace")
                refused[row] = f"column {column.name} is {column.type}, and this value is {shown!r} (see columns)"
            needs |= found == _NEEDS
    needs[list(refused)] = False
    return UnfitRows(needs, refused)


def _check_long(cells: Cells, verdicts: Any) -> None:
    """Check whole numbers that do not fit into 64 bits."""
    long = (cells.stops - cells.starts > _LONG) & (cells.kinds == INTEGER)
    for row in np.flatnonzero(long).tolist():
        raw = cells.raw(row)
        if len(raw.lstrip(b"-")) > (HUGE.length or 0):
            verdicts[row] = _REFUSED
        elif not -(2**63) <= int(raw) < 2**63:
            verdicts[row] = _NEEDS


def infer_fields(images: MessageImages, known: TableSchema | None) -> tuple[Field, ...]:
    """Fields for all members that the images have, in the order of the members; known types are widened."""
    names = list(known.names) if known is not None else []
    passed = np.zeros(len(images), bool)
    while True:
        columns = Columns(images, tuple(names))
        unknown = np.flatnonzero(columns.unknown & ~columns.faults & ~passed)
        if not len(unknown):
            break
        passed[unknown[0]] = True
        try:
            _add(names, _new_names(images.rows, int(unknown[0]), tuple(names)))
        except ValueError:
            continue
    types = {column.name: column.type for column in known.columns} if known is not None else {}
    found = []
    for name in names:
        cells = columns.cells(name)
        inferred = types.get(name)
        if inferred is not None and inferred not in _VERDICTS and inferred != TEXT:
            found.append(Field(name, inferred))
        elif has_values(cells):
            seen = _type_of(cells)
            found.append(Field(name, seen if inferred is None else widened(inferred, seen)))
        elif inferred is not None:
            found.append(Field(name, inferred))
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
    """Insert new names after the members that they follow."""
    index = 0
    for name in members:
        if name in names:
            index = names.index(name) + 1
        else:
            names.insert(index, name)
            index += 1


def no_columns_reason(images: MessageImages) -> str:
    """Why the first row gives no columns; empty when it does."""
    try:
        _new_names(images.rows, 0, ())
    except ValueError as error:
        return str(error)
    return ""


def _new_names(rows: Texts, row: int, known: tuple[str, ...]) -> list[str]:
    """The names of an object's members that have a value.

    Raises ValueError when one cannot be a column beside the known ones.
    """
    at, stop = int(rows.begins[row]), int(rows.ends[row])
    capacity = (stop - at) // 4 + 1
    spans = np.zeros((4, capacity), np.int32)
    kinds = np.zeros(capacity, np.uint8)
    total = scan.members(rows.address, at, stop, spans[0], spans[1], spans[2], spans[3], kinds)
    if total < 0:
        raise ValueError("a row that is not a JSON object")
    written = np.full(total, ESCAPED, np.uint8)
    names = convert.text(Cells(rows, spans[0, :total], spans[1, :total], written)).to_pylist()
    found = [name for name, kind in zip(names, kinds[:total], strict=True) if kind != NULL]
    check_columns([*known, *found])
    return found
