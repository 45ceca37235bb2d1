"""Read Maxwell's messages: one row each, without types; before images only have the changed columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from cdc.schema import Column, DropTable, RenameTable, TableId
from connectors.kafka.formats import convert
from connectors.kafka.formats.ddl import AlteredColumns, Changes, changes_of
from connectors.kafka.formats.fields import Field
from connectors.kafka.formats.groups import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    DdlMessage,
    MessageImages,
    Messages,
    Reading,
    TableGroup,
    repeated,
    rows_by_table,
    table_of,
    times_of,
)
from connectors.kafka.formats.names import check_columns
from connectors.kafka.formats.scan import Scan, Tree, runs
from connectors.kafka.formats.wrapped import key_object
from connectors.kafka.kernels import OBJECT, STRING

_TREE = Tree(dict.fromkeys(("data", "old", "database", "table", "type", "ts", "primary_key_columns")))
_OPS = {b"insert": INSERT, b"bootstrap-insert": INSERT, b"update": AFTER, b"delete": DELETE}
_PASSED = (b"bootstrap-start", b"bootstrap-complete")
_NO_OP = 255
_TEMPORARY = re.compile(r"\bTEMPORARY\b", re.IGNORECASE)
_PK = "pk."


class MaxwellFormat:
    """Reads Maxwell's messages. `zone` is the time zone of TIMESTAMP values."""

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone

    def natural(self, column: Column) -> Field:
        """The field of a column that messages do not describe, as in `Format`."""
        return Field(column.name, column.type, zone=self._zone)

    def read(self, messages: Messages, table: TableId | None = None) -> Reading:
        """Read messages, as in `Format`."""
        reading = Reading()
        reading.count_tombstones(messages)
        numbers = np.flatnonzero(messages.values.present)
        if not len(numbers):
            return reading
        scan = _TREE.scan(messages.values.inline_heads().take(numbers))
        types = scan.cells("type")
        ops = np.array([_OPS.get(types.raw(row), _NO_OP) for row in range(len(numbers))], np.uint8)
        rows = (scan.faults == 0) & (ops != _NO_OP) & (scan.cells("data").kinds == OBJECT)
        for other_row in np.flatnonzero(~rows):
            _read_other(reading, scan, int(other_row), int(numbers[other_row]))
        row_numbers = np.flatnonzero(rows)
        names = [scan.cells(name).take(row_numbers) for name in ("database", "table", "primary_key_columns")]
        if not len(row_numbers):
            return reading

        def describe(row: int) -> tuple[TableId, tuple[str, ...] | None]:
            return table_of(names[0], names[1], row), _key(names[2].raw(row), messages, int(numbers[row_numbers[row]]))

        for found, key, members in rows_by_table(reading, numbers, row_numbers, runs(*names), describe):
            images = _images(messages, scan, members, numbers, ops[members])
            reading.groups.append(TableGroup(found, None, key, images))
        return reading


def _key(columns: bytes, messages: Messages, number: int) -> tuple[str, ...] | None:
    """The key columns, from `primary_key_columns`, or else from the message's key.

    Maxwell writes keys as {"database", "pk.id": 7}, or as ["database", "table", [{"id": 7}]] with
    `kafka_key_format=array`. Raises ValueError for invalid names.
    """
    if columns:
        try:
            found = json.loads(columns)
        except RecursionError:
            found = ...
        if found is not None and not isinstance(found, list):
            raise ValueError("`primary_key_columns` is not a list")
        return check_columns(found or ())
    key = messages.key(number)
    members = key_object(key)
    if members is None:
        return _key_of_list(key)
    return check_columns(name.removeprefix(_PK) for name in members if name.startswith(_PK))


def _key_of_list(key: bytes | None) -> tuple[str, ...] | None:
    """The columns of a key in the form of a list; None for other keys. Raises ValueError for invalid names."""
    try:
        found = json.loads(key or b"null")
    except (ValueError, RecursionError):
        return None
    match found:
        case [str(), str(), [*columns]] if columns and all(isinstance(each, dict) for each in columns):
            return check_columns(name for each in columns for name in each)
    return None


def _read_other(reading: Reading, scan: Scan, row: int, number: int) -> None:
    kind = scan.cells("type").raw(row)
    if scan.faults[row]:
        reading.unreadable[number] = scan.fault(row)
    elif kind.startswith((b"table-", b"database-")):
        try:
            message = json.loads(scan.texts.bytes_of(row))
        except (ValueError, RecursionError) as error:
            reading.unreadable[number] = f"no JSON object ({error})"
        else:
            sql = str(message.get("sql") or "")
            reading.statements.append(
                DdlMessage(number, str(message.get("database") or ""), sql, _changes(message, sql))
            )
    elif kind not in _PASSED:
        reading.unreadable[number] = (
            "neither a row nor a statement of Maxwell: see its `type` and `data` (encrypted ones cannot be read)"
        )


def _changes(message: Mapping[str, Any], sql: str) -> Changes:
    """The changes of a statement; Maxwell writes one message for each table that is dropped or renamed."""
    if message["type"] == "table-drop" and not _TEMPORARY.search(sql):
        return (DropTable(_table_of(message)),)
    old, new = message.get("old"), message.get("def")
    if message["type"] != "table-alter" or not isinstance(old, dict) or not isinstance(new, dict):
        return ()
    table = _table_of(new)
    if _table_of(old) != table and old.get("columns") == new.get("columns"):
        return (RenameTable(_table_of(old), table),)
    match changes_of(sql, str(message.get("database") or "")):
        case (AlteredColumns() as change,) if change.agrees(table, _columns(new)):
            return (replace(change, table=table),)
        case (AlteredColumns() as change, RenameTable() as rename) if change.agrees(_table_of(old), _columns(new)):
            return (replace(change, table=_table_of(old)), rename) if rename.new_table == table else ()
    return ()


def _columns(definition: Mapping[str, Any]) -> list[str]:
    columns = definition.get("columns")
    found = columns if isinstance(columns, list) else ()
    return [str(column.get("name")) for column in found if isinstance(column, dict)]


def _table_of(fields: Mapping[str, Any]) -> TableId:
    return TableId(str(fields.get("database", "")), str(fields.get("table", "")))


def _images(messages: Messages, scan: Scan, members: Any, numbers: Any, ops: Any) -> MessageImages:
    data, old = scan.cells("data").take(members), scan.cells("old").take(members)
    two = (ops == AFTER) & (old.kinds == OBJECT)
    source, row_numbers = repeated(1 + two)
    before = two[source] & (row_numbers == 0)
    kinds = np.where(before, BEFORE, ops[source]).astype(np.uint8)
    changed = None
    if two.any():
        spans = (np.where(before, part[source], 0).astype(np.int32) for part in (old.starts, old.stops))
        changed = scan.texts.part(*spans)
    times = times_of(messages, numbers[members], _times(scan, members))
    rows = scan.texts.part(data.starts[source], data.stops[source])
    return MessageImages(rows, changed, numbers[members][source], row_numbers, kinds, times[source])


def _times(scan: Scan, members: Any) -> Any:
    cells = scan.cells("ts").take(members)
    if not (cells.kinds >= STRING).any():
        return None
    try:
        return pc.multiply(convert.integers(cells), 1000)
    except convert.BadValue:
        return None
