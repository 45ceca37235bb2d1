"""Read Canal's flat messages: the rows of one event with text values; before images only have the changed columns.

Every message has the types (`mysqlType`). ENUM and SET are numbers, bytes are Latin-1 text, BINARY lacks its trailing
zeros.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import numpy as np

from cdc.schema import Column, DropTable, RenameTable, TableId, TruncateTable
from connectors.kafka.formats import convert
from connectors.kafka.formats.canal_types import field_of
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
from connectors.kafka.formats.scan import Cells, Scan, Tree, elements, runs
from connectors.kafka.kernels import ARRAY, STRING, TRUE

_TREE = Tree({
    **dict.fromkeys(("data", "old", "database", "table", "type", "es", "ts", "isDdl", "mysqlType", "pkNames", "sql")),
    "_tidb": {"onlyHandleKey": None, "claimCheckLocation": None},
})  # fmt: skip
_KINDS = {
    TruncateTable: ("TRUNCATE",), DropTable: ("ERASE",), RenameTable: ("RENAME", "ALTER"),
    AlteredColumns: ("ALTER", "RENAME"),
}  # fmt: skip
"""The `type` that Canal gives to each kind of supported statement."""
_STATEMENTS = (b"CREATE", b"ALTER", b"ERASE", b"RENAME", b"TRUNCATE", b"CINDEX", b"DINDEX")
_INSERT, _UPDATE, _DELETE = b"INSERT", b"UPDATE", b"DELETE"
_COPIED = b"INIT"
"""The type of rows of an initial copy, in programs that adopted Canal's format."""
_WATERMARK = b"TIDB_WATERMARK"
"""The type of TiCDC's marks of its progress, which have no rows."""
_SHORT = (
    "TiCDC has written the key of this row alone, as the message was too large (large-message-handle-option): "
    "raise max-message-bytes there, and compress"
)
_T = TypeVar("_T", dict[str, Any], list[Any])
_Described = tuple[tuple[Field, ...] | None, tuple[str, ...]]


class CanalFormat:
    """Reads Canal's messages. `zone` is the time zone of TIMESTAMP values."""

    def __init__(self, zone: str = "UTC") -> None:
        self._zone = zone
        self._met: dict[tuple[bytes, bytes], _Described] = {}

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
        kinds = scan.cells("type")
        ops = np.array([_op(kinds, row) for row in range(len(numbers))], np.uint8)
        rows = (scan.faults == 0) & (ops != 0) & (scan.cells("data").kinds == ARRAY)
        for other_row in np.flatnonzero(~rows):
            _read_other(reading, scan, int(other_row), int(numbers[other_row]))
        short = rows & (ops != _DELETE[0]) & _without_columns(scan)
        reading.unreadable.update(dict.fromkeys(numbers[short].tolist(), _SHORT))
        row_numbers = np.flatnonzero(rows & ~short)
        if len(row_numbers):
            self._sort(messages, reading, scan, numbers, ops, row_numbers)
        return reading

    def _sort(self, messages: Messages, reading: Reading, scan: Scan, numbers: Any, ops: Any, row_numbers: Any) -> None:
        names = [scan.cells(name).take(row_numbers) for name in ("database", "table", "mysqlType", "pkNames")]

        def describe(row: int) -> tuple[TableId, _Described]:
            return table_of(names[0], names[1], row), self._described(names[2].raw(row), names[3].raw(row))

        for table, (fields, key), members in rows_by_table(reading, numbers, row_numbers, runs(*names), describe):
            images = _images(messages, reading, scan, members, numbers, ops[members])
            if len(images):
                reading.groups.append(TableGroup(table, fields, key, images))

    def _described(self, types: bytes, keys: bytes) -> _Described:
        """The columns from `mysqlType` and `pkNames`. Raises ValueError when those are not in Canal's form."""
        found = self._met.get((types, keys))
        if found is None:
            columns, names = _read(types or b"null", dict, "mysqlType"), _read(keys or b"null", list, "pkNames")
            check_columns([*columns, *names])
            fields = tuple(field_of(name, text, self._zone) for name, text in columns.items())
            found = self._met[types, keys] = fields or None, tuple(names)
        return found


def _read(text: bytes, kind: type[_T], member: str) -> _T:
    """Parse a member, which must be of this kind or NULL. Raises ValueError."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = ...
    if found is not None and not isinstance(found, kind):
        raise ValueError(f"`{member}` is not as Canal writes it: {text[:40].decode('utf-8', 'replace')!r}")
    return found or kind()


def _without_columns(scan: Scan) -> Any:
    """The rows of which TiCDC has only written the key (bool[n]), except for deletes, which need no more."""
    claim_location = scan.cells("_tidb", "claimCheckLocation")
    return (scan.cells("_tidb", "onlyHandleKey").kinds == TRUE) | (
        (claim_location.kinds == STRING) & (claim_location.stops > claim_location.starts)
    )


def _op(kinds: Cells, row: int) -> int:
    """The first letter of INSERT, UPDATE or DELETE; that of INSERT for copied rows; 0 for any other type."""
    text = kinds.raw(row) if kinds.kinds[row] == STRING else b""
    return text[0] if text in (_INSERT, _UPDATE, _DELETE, _COPIED) else 0


def _read_other(reading: Reading, scan: Scan, row: int, number: int) -> None:
    if scan.faults[row]:
        reading.unreadable[number] = scan.fault(row)
    elif scan.cells("isDdl").kinds[row] == TRUE or scan.cells("type").raw(row) in _STATEMENTS:
        try:
            sql, database, table, kind = (
                convert.text(scan.cells(name).take([row]))[0].as_py() or ""
                for name in ("sql", "database", "table", "type")
            )
        except convert.BadValue as error:
            reading.unreadable[number] = str(error)
            return
        reading.statements.append(DdlMessage(number, database, sql, _changes(sql, TableId(database, table), kind)))
    elif scan.cells("type").raw(row) != _WATERMARK:
        reading.unreadable[number] = "neither rows nor a statement of Canal: see its `type` and `data`"


def _changes(sql: str, table: TableId, kind: str) -> Changes:
    """The changes of a statement, if its text agrees with what Canal read from it.

    The table that Canal names must be one of the statement's, under its new name.
    """
    found = changes_of(sql, table.database)
    named = {change.new_table for change in found if isinstance(change, RenameTable)}
    named = named or {change.table for change in found}
    return found if table in named and all(kind in _KINDS[type(change)] for change in found) else ()


def _images(messages: Messages, reading: Reading, scan: Scan, members: Any, numbers: Any, ops: Any) -> MessageImages:
    """The row images: one for each inserted or deleted row, two for an updated one."""
    rows, item, no_rows = elements(scan.cells("data").take(members))
    old, old_item, no_old = elements(scan.cells("old").take(members))
    per, old_per = np.bincount(item, minlength=len(members)), np.bincount(old_item, minlength=len(members))
    complete = ~(no_rows | no_old)
    for place in np.flatnonzero(~complete):
        reading.unreadable[int(numbers[members[place]])] = "a list of rows that is not JSON"
    for place in np.flatnonzero((ops == _UPDATE[0]) & (old_per != per) & (old_per > 0)):
        reading.unreadable[int(numbers[members[place]])] = f"{per[place]} rows, and {old_per[place]} in `old`"
        complete[place] = False
    for place in np.unique(old_item[old.ends == old.begins]):
        if ops[place] == _UPDATE[0] and complete[place]:
            reading.unreadable[int(numbers[members[place]])] = "an element of `old` that is not an object"
            complete[place] = False
    empty = np.zeros(len(rows), np.int32)
    begins, ends = empty.copy(), empty.copy()
    paired = complete & (old_per == per) & (ops == _UPDATE[0])
    begins[paired[item]], ends[paired[item]] = old.begins[paired[old_item]], old.ends[paired[old_item]]
    op = ops[item]
    source, place = repeated(np.where(complete[item], 1 + paired[item], 0))
    before = paired[item][source] & (place == 0)
    kinds = np.select([op[source] == _DELETE[0], before, op[source] == _UPDATE[0]], [DELETE, BEFORE, AFTER], INSERT)
    committed = times_of(messages, numbers[members], _times(scan, members))
    message = numbers[members][item][source]
    texts = scan.texts
    return MessageImages(
        texts.part(rows.begins[source], rows.ends[source]),
        texts.part(np.where(before, begins[source], 0), np.where(before, ends[source], 0)) if paired.any() else None,
        message, _rows_in_message(message), kinds.astype(np.uint8), committed[item][source],
    )  # fmt: skip


def _rows_in_message(message: Any) -> Any:
    """The number of each image within its message; the images of a message are contiguous."""
    first = np.flatnonzero(np.diff(message, prepend=-1))
    return np.arange(len(message)) - np.repeat(first, np.diff(first, append=len(message)))


def _times(scan: Scan, members: Any) -> Any:
    try:
        return convert.integers(scan.cells("es").take(members))
    except convert.BadValue:
        return None
